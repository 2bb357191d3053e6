from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('scheduler', '0005_retries_due'),
    ]

    operations = [
        migrations.AddField(
            model_name='cluster',
            name='min_run_s',
            field=models.FloatField(default=0.0),
        ),
    ]
