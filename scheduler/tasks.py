"""Celery tasks of the scheduler, each a call of one function, and the steps of its workers."""

import threading
import time

from celery import current_app, shared_task

from scheduler.live.reports.rollup import samples_roll_up
from scheduler.live.rounds.run_round import round_run
from scheduler.live.worker import EngineStep
from scheduler.notices.worker import NoticesStep
from scheduler.notify import bell
from scheduler.ports import live_ports
from scheduler.services.retention.remove import old_rows_remove
from scheduler.whatif.worker import SimulationStep

# Loaded by the application that discovers tasks here (``clusterweb.celery``), so that one is current.
current_app.steps["worker"].update([EngineStep, SimulationStep, NoticesStep])

# Of each minute: a round on the same worker waits at most so long for it.
CLEAN_UP_S = 2.0

# One round at a time in this process; the counter of rounds does the same between processes.
_round = threading.Lock()


@shared_task(name="scheduler.run_round")  # type: ignore[untyped-decorator]  # celery has no stubs
def run_round(trigger: str) -> None:
    """Decide and apply one round."""
    with _round:
        bell().round_begins()
        round_run(live_ports(), trigger)


@shared_task(name="scheduler.roll_up_samples")  # type: ignore[untyped-decorator]  # celery has no stubs
def roll_up_samples() -> None:
    """Make old samples coarser."""
    samples_roll_up(at=live_ports().clock.now())


@shared_task(name="scheduler.remove_old_rows")  # type: ignore[untyped-decorator]  # celery has no stubs
def remove_old_rows() -> None:
    """Remove what is older than the policy allows, as far as this minute's share of time goes."""
    until_s = time.monotonic() + CLEAN_UP_S
    old_rows_remove(at=live_ports().clock.now(), go_on=lambda: time.monotonic() < until_s)
