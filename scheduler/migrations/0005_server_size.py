from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("scheduler", "0004_retention"),
    ]

    operations = [
        migrations.AddField(
            model_name="server",
            name="trusted_size",
            field=models.JSONField(blank=True, default=dict),
        ),
        migrations.AddField(
            model_name="server",
            name="claimed_size",
            field=models.JSONField(blank=True, null=True),
        ),
    ]
