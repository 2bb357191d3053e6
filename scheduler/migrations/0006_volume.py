"""Limits for what one user, spec and experiment may take, and the index that counts a user's queued jobs."""

from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ("scheduler", "0005_server_size"),
    ]

    operations = [
        migrations.AddField(
            model_name="cluster",
            name="user_most_queued",
            field=models.PositiveIntegerField(default=5_000),
        ),
        migrations.AddField(
            model_name="cluster",
            name="spec_most_bytes",
            field=models.PositiveIntegerField(default=1280 * 1024),
        ),
        migrations.AddField(
            model_name="cluster",
            name="experiment_most_jobs",
            field=models.PositiveIntegerField(default=1_000),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(fields=["owner", "state", "queue"], name="job_by_owner_and_state"),
        ),
    ]
