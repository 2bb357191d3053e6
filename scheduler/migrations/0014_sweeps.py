"""Experiments that try all their configurations: without a target, so nothing ends one before its end."""

from django.db import migrations, models
from django.db.models import Q

STATES = ("running", "found", "exhausted", "done", "cancelled")


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0013_environments")]

    operations = [
        migrations.AlterField("experiment", "total_steps", models.PositiveBigIntegerField(null=True)),
        migrations.AlterField("experiment", "feedback_steps", models.PositiveBigIntegerField(null=True)),
        migrations.AlterField("experiment", "target_loss", models.FloatField(null=True)),
        migrations.AlterField(
            "experiment",
            "state",
            models.CharField(choices=[(state, state) for state in STATES], default="running", max_length=10),
        ),
        migrations.RemoveConstraint("experiment", "experiment_state_known"),
        migrations.AddConstraint(
            "experiment", models.CheckConstraint(condition=Q(state__in=STATES), name="experiment_state_known")
        ),
    ]
