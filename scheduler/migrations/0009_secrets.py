"""Secrets of users and queues, as ciphertext; which jobs name one; the end of a start that misses one."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models
from django.db.models import Q

CAUSES = [
    (cause, cause)
    for cause in (
        *("completed", "preempted", "suspended", "cancelled", "exit_code", "signal", "out_of_memory", "out_of_disk"),
        *("command_not_found", "secret_missing", "time_limit", "stalled", "process_limit", "smoke_passed"),
        *("early_stopped", "launch_failed", "server_lost", "supervisor_lost", "launch_unconfirmed"),
    )
]


class Migration(migrations.Migration):
    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ("scheduler", "0008_code"),
    ]

    operations = [
        migrations.CreateModel(
            name="Secret",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=63)),
                ("sealed", models.TextField()),
                ("created_at", models.DateTimeField()),
                ("created_by", models.CharField(max_length=150)),
                ("changed_at", models.DateTimeField()),
                ("changed_by", models.CharField(max_length=150)),
                ("last_used_at", models.DateTimeField(null=True)),
                (
                    "last_used_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="scheduler.job",
                    ),
                ),
                (
                    "queue",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="secrets",
                        to="scheduler.queue",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="secrets",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "ordering": ["name"],
                "constraints": [
                    models.CheckConstraint(
                        condition=Q(user__isnull=True) ^ Q(queue__isnull=True), name="secret_of_a_user_or_a_queue"
                    ),
                    models.UniqueConstraint(fields=["user", "name"], name="secret_once_a_user"),
                    models.UniqueConstraint(fields=["queue", "name"], name="secret_once_a_queue"),
                ],
            },
        ),
        migrations.AddField(model_name="job", name="names_secrets", field=models.BooleanField(default=False)),
        *(
            migrations.AlterField(
                model_name=name,
                name="end_cause",
                field=models.CharField(blank=True, choices=CAUSES, default="", max_length=20),
            )
            for name in ("attempt", "gangmember", "job")
        ),
    ]
