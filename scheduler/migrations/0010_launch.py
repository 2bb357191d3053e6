"""Gangs of one process a server, and a port that the database itself gives to one open gang alone."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0009_secrets")]

    operations = [
        migrations.AddField(
            model_name="gang",
            name="hosts",
            field=models.JSONField(default=list),
        ),
        migrations.AddField(
            model_name="gang",
            name="held_port",
            field=models.PositiveIntegerField(null=True, unique=True),
        ),
    ]
