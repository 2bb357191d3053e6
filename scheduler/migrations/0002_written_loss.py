import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('scheduler', '0001_squashed_0021_longer_state_reason'),
    ]

    operations = [
        migrations.CreateModel(
            name='WrittenLoss',
            fields=[
                ('job', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='written_loss', serialize=False, to='scheduler.job')),
                ('source', models.CharField(blank=True, default='', max_length=300)),
                ('curve', models.JSONField(default=list)),
                ('step', models.PositiveBigIntegerField(null=True)),
                ('loss', models.FloatField(null=True)),
                ('read_at', models.DateTimeField()),
                ('is_whole', models.BooleanField(default=False)),
                ('is_final', models.BooleanField(default=False)),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(models.Q(('loss__isnull', True), ('step__isnull', True)), models.Q(('loss__isnull', False), ('step__isnull', False)), _connector='OR'), name='written_loss_has_its_step')],
            },
        ),
    ]
