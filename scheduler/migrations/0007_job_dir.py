"""Size and removal of the directories of jobs, and how long a queue keeps them."""

from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0006_volume")]

    operations = [
        migrations.AddField(
            model_name="job",
            name="directory_bytes",
            field=models.PositiveBigIntegerField(null=True),
        ),
        migrations.AddField(
            model_name="job",
            name="directory_removal_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="job",
            name="directory_removed_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="queue",
            name="keep_directories_days",
            field=models.PositiveIntegerField(default=30),
        ),
        migrations.AddField(
            model_name="queue",
            name="directories_most_bytes",
            field=models.PositiveBigIntegerField(null=True),
        ),
        migrations.AddField(
            model_name="queue",
            name="user_directories_most_bytes",
            field=models.PositiveBigIntegerField(null=True),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                fields=["ended_at", "number"],
                condition=Q(directory_bytes__isnull=False, directory_removed_at__isnull=True),
                name="job_with_directory",
            ),
        ),
    ]
