"""Settings of a soak: those of the product, but what is kept for months or days is kept for minutes.

So rows go in the hour that a soak takes, beside all that is written. ``SOAK_KEPT_S`` says for how long jobs and rounds
are kept; samples become coarser on the way there, and the clean-up has more time, as there is more to remove.
"""

import os
from datetime import timedelta

from celery.signals import worker_ready
from django.apps import AppConfig

from clusterweb.settings import *  # noqa: F403
from clusterweb.settings import INSTALLED_APPS as OF_THE_PRODUCT

KEPT_S = float(os.environ["SOAK_KEPT_S"])
LEAST_S = 30.0  # more than samples wait before they are written
# Of each minute, in which the jobs of 72 minutes come and go: more than the product takes for those of one.
CLEAN_UP_S = 10.0
# Pages that show a range of days show less.
KEEP_JOBS_DAYS = KEEP_ROUNDS_DAYS = KEPT_S / 86_400  # type: ignore[assignment]  # a part of a day does as well


class ShortAges(AppConfig):
    """Sets the ages of samples, which are no settings of the product."""

    name = "tests.chaos"

    def ready(self) -> None:
        """Set them in this process, before it works."""
        from scheduler.live.reports import rollup

        (seconds, to_tens, _), (tens, to_minutes, _) = rollup.STEPS
        first_s = max(LEAST_S, KEPT_S / 12)
        rollup.STEPS = (
            (seconds, to_tens, timedelta(seconds=first_s)),
            (tens, to_minutes, timedelta(seconds=max(3 * first_s, KEPT_S / 2))),
        )
        rollup.KEPT = timedelta(seconds=max(6 * first_s, KEPT_S))
        worker_ready.connect(_more_time, weak=False)  # tasks are imported by workers alone


def _more_time(**_: object) -> None:
    """Let a pass of the clean-up take its time."""
    from scheduler import tasks

    tasks.CLEAN_UP_S = CLEAN_UP_S


INSTALLED_APPS = [*OF_THE_PRODUCT, "tests.chaos.soak_settings.ShortAges"]
