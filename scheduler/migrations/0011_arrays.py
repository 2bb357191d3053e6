"""Jobs of an array, and jobs that wait for others; the reasons of their waits, and the end of a wait in vain."""

from django.conf import settings
from django.db import migrations, models
from django.db.models import Q

CAUSES = [
    (cause, cause)
    for cause in (
        *("completed", "preempted", "suspended", "cancelled", "dependency", "exit_code", "signal", "out_of_memory"),
        *("out_of_disk", "command_not_found", "secret_missing", "time_limit", "stalled", "process_limit"),
        *("smoke_passed", "early_stopped", "launch_failed", "server_lost", "supervisor_lost", "launch_unconfirmed"),
    )
]
REASONS = [
    (reason, reason)
    for reason in (
        *("new", "queue_quota", "queue_max", "user_limit", "array_limit", "dependency", "no_capacity"),
        *("behind_policy_order", "fragmentation", "cpu_or_memory", "never_feasible", "isolation", "no_server"),
        *("reconfiguring", "backoff", "held", "policy_paused", "scheduler_stale"),
    )
]


class Migration(migrations.Migration):
    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ("scheduler", "0010_launch"),
    ]

    operations = [
        *(
            migrations.AddField(model_name="job", name=name, field=field)
            for name, field in (
                ("array_number", models.PositiveBigIntegerField(null=True)),
                ("array_index", models.PositiveIntegerField(null=True)),
                ("array_most", models.PositiveIntegerField(default=0)),
                ("waits_for", models.CharField(blank=True, default="", max_length=500)),
            )
        ),
        *(
            migrations.AlterField(
                model_name=model,
                name="end_cause",
                field=models.CharField(blank=True, choices=CAUSES, default="", max_length=20),
            )
            for model in ("attempt", "gangmember", "job")
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
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                fields=["array_number", "array_index"], condition=Q(array_number__isnull=False), name="job_by_array"
            ),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(fields=["number"], condition=~Q(waits_for=""), name="job_waits_for"),
        ),
    ]
