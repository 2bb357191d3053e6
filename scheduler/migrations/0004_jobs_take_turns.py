from django.db import migrations, models

STATES = [
    (state, state)
    for state in (
        "queued",
        "launching",
        "running",
        "parked",
        "preempting",
        "suspending",
        "suspended",
        "completed",
        "failed",
        "cancelled",
    )
]
WAITS = ["parked", "queued"]


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0003_gangs")]

    operations = [
        migrations.CreateModel(
            name="Trial",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "kind",
                    models.CharField(
                        choices=[(kind, kind) for kind in ("slice", "alone", "pack", "move", "grow", "idle")],
                        max_length=10,
                    ),
                ),
                ("jobs", models.JSONField(default=list)),
                ("servers", models.JSONField(default=list)),
                ("values", models.JSONField(default=list)),
                ("began_s", models.FloatField()),
                ("until_s", models.FloatField()),
                (
                    "verdict",
                    models.CharField(choices=[(word, word) for word in ("trying", "kept", "undone")], max_length=10),
                ),
                ("rates_after", models.JSONField(default=list)),
                ("place", models.PositiveIntegerField(null=True)),
                ("ended_at", models.DateTimeField(null=True)),
            ],
            options={
                "ordering": ["-id"],
                "indexes": [
                    models.Index(
                        condition=models.Q(("place__isnull", False)), fields=["place"], name="trial_remembered"
                    )
                ],
            },
        ),
        migrations.AddField("cluster", "introspection", models.JSONField(blank=True, default=list)),
        migrations.AddField("cluster", "introspection_options", models.JSONField(blank=True, default=dict)),
        migrations.AddField("cluster", "again_at", models.DateTimeField(null=True)),
        migrations.AddField("job", "weight", models.FloatField(default=1.0)),
        migrations.AlterField("job", "state", models.CharField(choices=STATES, default="queued", max_length=12)),
        migrations.RemoveConstraint("job", "job_state_known"),
        migrations.AddConstraint(
            "job",
            models.CheckConstraint(
                condition=models.Q(("state__in", [state for state, _ in STATES])), name="job_state_known"
            ),
        ),
        migrations.RemoveConstraint("job", "job_reason_exactly_when_queued"),
        migrations.AddConstraint(
            "job",
            models.CheckConstraint(
                condition=models.Q(
                    models.Q(("state__in", WAITS), models.Q(("wait_reason", ""), _negated=True)),
                    models.Q(models.Q(("state__in", WAITS), _negated=True), ("wait_reason", "")),
                    _connector="OR",
                ),
                name="job_reason_exactly_when_waiting",
            ),
        ),
        migrations.AddConstraint(
            "job", models.CheckConstraint(condition=models.Q(("weight__gt", 0)), name="job_weight_positive")
        ),
        migrations.AlterField(
            "attempt",
            "state",
            models.CharField(
                choices=[(state, state) for state in ("launching", "running", "parked", "stopping", "ended")],
                default="launching",
                max_length=10,
            ),
        ),
        migrations.RemoveConstraint("attempt", "attempt_state_known"),
        migrations.AddConstraint(
            "attempt",
            models.CheckConstraint(
                condition=models.Q(("state__in", ["launching", "running", "parked", "stopping", "ended"])),
                name="attempt_state_known",
            ),
        ),
        migrations.RemoveConstraint("attempt", "attempt_wanted_known"),
        migrations.AddConstraint(
            "attempt",
            models.CheckConstraint(
                condition=models.Q(("wanted__in", ["run", "park", "preempt", "suspend", "cancel"])),
                name="attempt_wanted_known",
            ),
        ),
        migrations.RemoveConstraint("lease", "lease_has_a_gpu"),
        migrations.AddConstraint(
            "lease",
            models.CheckConstraint(
                condition=models.Q(("num_gpus__gte", 1), ("cpus", 0), _connector="OR"),
                name="lease_has_a_gpu_or_only_memory",
            ),
        ),
    ]
