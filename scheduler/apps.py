"""Django application of the scheduler."""

from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class SchedulerApp(AppConfig):
    """Django's entry for this application; the settings of rounds are ``core.round.config.SchedulerConfig``."""

    name = "scheduler"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Create the one cluster row after each migration, also after a flush."""
        post_migrate.connect(_make_cluster_row, sender=self)


def _make_cluster_row(*, using: str, **_: Any) -> None:  # Django passes more than we read
    from scheduler.models import Cluster

    Cluster.objects.using(using).get_or_create(pk=1)
