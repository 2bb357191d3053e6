"""Python environments of jobs, where they stand, and the wait and the end that they bring about."""

import django.db.models.deletion
from django.db import migrations, models

CAUSES = [
    (cause, cause)
    for cause in (
        *("completed", "preempted", "suspended", "cancelled", "dependency", "exit_code", "signal"),
        *("out_of_memory", "out_of_disk", "command_not_found", "secret_missing", "environment"),
        *("time_limit", "stalled", "process_limit", "smoke_passed", "early_stopped", "launch_failed"),
        *("server_lost", "supervisor_lost", "launch_unconfirmed"),
    )
]
REASONS = [
    (reason, reason)
    for reason in (
        *("new", "queue_quota", "queue_max", "user_limit", "array_limit", "dependency", "no_capacity"),
        *("behind_policy_order", "fragmentation", "cpu_or_memory", "never_feasible", "isolation"),
        *("preparing_environment", "no_server", "reconfiguring", "backoff", "held", "policy_paused"),
        *("scheduler_stale",),
    )
]


class Migration(migrations.Migration):
    dependencies = [
        ("scheduler", "0012_wall"),
    ]

    operations = [
        migrations.AddField(
            model_name="server",
            name="python",
            field=models.CharField(blank=True, default="", max_length=31),
        ),
        migrations.AlterField(
            model_name="attempt",
            name="end_cause",
            field=models.CharField(blank=True, choices=CAUSES, default="", max_length=20),
        ),
        migrations.AlterField(
            model_name="gangmember",
            name="end_cause",
            field=models.CharField(blank=True, choices=CAUSES, default="", max_length=20),
        ),
        migrations.AlterField(
            model_name="job",
            name="end_cause",
            field=models.CharField(blank=True, choices=CAUSES, default="", max_length=20),
        ),
        migrations.AlterField(
            model_name="job",
            name="told_reason",
            field=models.CharField(choices=REASONS, default="new", max_length=30),
        ),
        migrations.AlterField(
            model_name="job",
            name="wait_reason",
            field=models.CharField(blank=True, choices=REASONS, default="new", max_length=30),
        ),
        migrations.CreateModel(
            name="Environment",
            fields=[
                ("digest", models.CharField(max_length=64, primary_key=True, serialize=False)),
                ("kind", models.CharField(max_length=12)),
                ("source", models.CharField(max_length=1024)),
                ("files", models.JSONField()),
                ("created_at", models.DateTimeField()),
                (
                    "queue",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="environments", to="scheduler.queue"
                    ),
                ),
            ],
        ),
        migrations.AddField(
            model_name="job",
            name="environment",
            field=models.ForeignKey(
                null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="jobs", to="scheduler.environment"
            ),
        ),
        migrations.CreateModel(
            name="ServerEnvironment",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("asked", "asked"),
                            ("waiting", "waiting"),
                            ("building", "building"),
                            ("ready", "ready"),
                            ("failed", "failed"),
                        ],
                        default="asked",
                        max_length=8,
                    ),
                ),
                ("is_wanted", models.BooleanField(default=True)),
                ("asked_at", models.DateTimeField()),
                ("changed_at", models.DateTimeField()),
                ("detail", models.CharField(blank=True, default="", max_length=300)),
                ("done", models.PositiveIntegerField(null=True)),
                ("total", models.PositiveIntegerField(null=True)),
                ("tail", models.TextField(blank=True, default="")),
                ("num_bytes", models.PositiveBigIntegerField(default=0)),
                ("build_s", models.FloatField(default=0.0)),
                (
                    "environment",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="places", to="scheduler.environment"
                    ),
                ),
                (
                    "server",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="environments", to="scheduler.server"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("environment", "server"), name="environment_once_a_server"),
                    models.CheckConstraint(
                        condition=models.Q(("state__in", ["asked", "waiting", "building", "ready", "failed"])),
                        name="server_environment_state_known",
                    ),
                ],
            },
        ),
    ]
