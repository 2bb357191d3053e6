import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0005_what_if")]

    operations = [
        migrations.AddField("profile", "spread", models.JSONField(default=list)),
        migrations.AddField("profile", "rates", models.JSONField(default=list)),
        migrations.AddField("profile", "evidence", models.JSONField(default=dict)),
        migrations.AddField("profile", "live_rates", models.JSONField(default=list)),
        migrations.AddField("profile", "measured_cpus", models.PositiveIntegerField(default=0)),
        migrations.AddField("profile", "measure_again", models.BooleanField(default=False)),
        migrations.CreateModel(
            name="Measurement",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("above_cpus", models.PositiveIntegerField(default=0)),
                ("measured_at", models.DateTimeField(null=True)),
                ("took_s", models.FloatField(null=True)),
                (
                    "attempt",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="measurement",
                        to="scheduler.attempt",
                    ),
                ),
                (
                    "profile",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="measurements",
                        to="scheduler.profile",
                    ),
                ),
            ],
        ),
    ]
