"""What-if scenarios, their runs and trace files; estimates of when jobs start."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("scheduler", "0004_jobs_take_turns"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="TraceFile",
            fields=[
                ("id", models.CharField(max_length=26, primary_key=True, serialize=False)),
                ("name", models.CharField(max_length=120)),
                ("content", models.BinaryField()),
                ("num_bytes", models.PositiveIntegerField()),
                ("created_at", models.DateTimeField()),
                (
                    "owner",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="trace_files",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Scenario",
            fields=[
                ("id", models.CharField(max_length=26, primary_key=True, serialize=False)),
                ("name", models.CharField(max_length=120)),
                ("created_at", models.DateTimeField()),
                ("start", models.JSONField()),
                ("of_cluster", models.BooleanField()),
                ("variants", models.JSONField()),
                ("seeds", models.JSONField()),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("queued", "queued"),
                            ("running", "running"),
                            ("completed", "completed"),
                            ("failed", "failed"),
                            ("cancelled", "cancelled"),
                        ],
                        default="queued",
                        max_length=10,
                    ),
                ),
                ("error", models.CharField(blank=True, default="", max_length=500)),
                ("started_at", models.DateTimeField(null=True)),
                ("ended_at", models.DateTimeField(null=True)),
                ("base", models.BinaryField(null=True)),
                ("about", models.JSONField(default=dict)),
                ("worker", models.CharField(blank=True, default="", max_length=80)),
                ("heartbeat_at", models.DateTimeField(null=True)),
                (
                    "owner",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="scenarios",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "trace_file",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="scenarios",
                        to="scheduler.tracefile",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="ScenarioRun",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("variant", models.PositiveSmallIntegerField()),
                ("seed", models.PositiveBigIntegerField()),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("queued", "queued"),
                            ("running", "running"),
                            ("completed", "completed"),
                            ("failed", "failed"),
                            ("cancelled", "cancelled"),
                        ],
                        default="queued",
                        max_length=10,
                    ),
                ),
                ("error", models.CharField(blank=True, default="", max_length=500)),
                ("attempts", models.PositiveSmallIntegerField(default=0)),
                ("worker", models.CharField(blank=True, default="", max_length=80)),
                ("heartbeat_at", models.DateTimeField(null=True)),
                ("started_at", models.DateTimeField(null=True)),
                ("ended_at", models.DateTimeField(null=True)),
                ("done_jobs", models.PositiveIntegerField(default=0)),
                ("num_jobs", models.PositiveIntegerField(default=0)),
                ("summary", models.JSONField(null=True)),
                ("figures", models.JSONField(null=True)),
                ("costs", models.JSONField(default=dict)),
                (
                    "scenario",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="runs", to="scheduler.scenario"
                    ),
                ),
            ],
            options={
                "ordering": ["scenario_id", "seed", "variant"],
                "indexes": [
                    models.Index(
                        condition=models.Q(("state__in", ["queued", "running"])),
                        fields=["state", "id"],
                        name="scenario_run_open",
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("scenario", "variant", "seed"), name="scenario_run_once"),
                    models.CheckConstraint(
                        condition=models.Q(("state__in", ["queued", "running", "completed", "failed", "cancelled"])),
                        name="scenario_run_state_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state", "completed"), ("summary__isnull", False)),
                            models.Q(("state", "completed"), _negated=True),
                            _connector="OR",
                        ),
                        name="scenario_run_completed_has_result",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="StartEstimate",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("round_number", models.PositiveBigIntegerField()),
                ("made_at", models.DateTimeField()),
                ("p50_at", models.DateTimeField(null=True)),
                ("p90_at", models.DateTimeField(null=True)),
                ("reason", models.CharField(blank=True, default="", max_length=30)),
                ("futures", models.PositiveSmallIntegerField(default=0)),
                ("starts_s", models.JSONField(default=list)),
                ("first_made_at", models.DateTimeField(null=True)),
                ("first_p50_at", models.DateTimeField(null=True)),
                ("first_p90_at", models.DateTimeField(null=True)),
                ("closed_at", models.DateTimeField(null=True)),
                ("started_at", models.DateTimeField(null=True)),
                ("error_s", models.FloatField(null=True)),
                (
                    "job",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="estimates", to="scheduler.job"
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("error_s__isnull", False)),
                        fields=["started_at"],
                        name="start_estimate_by_start",
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("closed_at__isnull", True)),
                        fields=("job",),
                        name="start_estimate_one_open_per_job",
                    )
                ],
            },
        ),
        migrations.AddIndex(
            model_name="tracefile",
            index=models.Index(fields=["owner", "-id"], name="trace_file_by_owner"),
        ),
        migrations.AddIndex(
            model_name="scenario",
            index=models.Index(fields=["owner", "-id"], name="scenario_by_owner"),
        ),
        migrations.AddIndex(
            model_name="scenario",
            index=models.Index(
                condition=models.Q(("state__in", ["queued", "running"])), fields=["state"], name="scenario_open"
            ),
        ),
        migrations.AddConstraint(
            model_name="scenario",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", ["queued", "running", "completed", "failed", "cancelled"])),
                name="scenario_state_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="scenario",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("ended_at__isnull", True), ("state__in", ["queued", "running"])),
                    models.Q(
                        models.Q(("state__in", ["queued", "running"]), _negated=True), ("ended_at__isnull", False)
                    ),
                    _connector="OR",
                ),
                name="scenario_end_time_exactly_when_ended",
            ),
        ),
    ]
