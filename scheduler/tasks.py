"""Celery entry points of the scheduler: short, each calls one function."""

import threading

from celery import shared_task

from clusterweb.celery import app
from scheduler.live.reports.rollup import samples_roll_up
from scheduler.live.rounds.run_round import round_run
from scheduler.live.worker import EngineStep
from scheduler.notices.worker import NoticesStep
from scheduler.notify import bell
from scheduler.ports import live_ports
from scheduler.whatif.worker import SimulationStep

app.steps["worker"].add(EngineStep)
app.steps["worker"].add(SimulationStep)
app.steps["worker"].add(NoticesStep)

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
