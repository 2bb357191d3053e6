"""Celery tasks of the scheduler, each a call of one function, and the steps of its workers."""

import logging
import math
import threading
import time
from functools import partial

from celery import current_app, shared_task

from scheduler.live.reports.rollup import samples_roll_up
from scheduler.live.rounds.run_round import round_run
from scheduler.live.steps import Steps
from scheduler.live.worker import EngineStep
from scheduler.notices.worker import NoticesStep
from scheduler.notify import bell
from scheduler.ports import live_ports
from scheduler.services.retention.remove import old_rows_remove
from scheduler.whatif.worker import SimulationStep

log = logging.getLogger(__name__)

# Loaded by the application that discovers tasks here (``clusterweb.celery``), so that one is current.
current_app.steps["worker"].update([EngineStep, SimulationStep, NoticesStep])

# An early round begins so many times as long after the last one as that took, at most so many seconds: however many
# changes ask for one, rounds leave most of the machine and of the database to what asks. Submits wait for longer than
# what frees GPUs: where many jobs wait a round is dear, and one job more seldom starts. All waits are shorter than the
# bell keeps a round asked for (``WAKE_MS``).
REST, REST_MOST_S = 2.0, 1.5
REST_OF_SUBMITS, REST_OF_SUBMITS_MOST_S = 8.0, 3.0


class Pace:
    """When the last round ended and how long it took, by a monotonic clock."""

    def __init__(self) -> None:
        self._ended_s, self._took_s = -math.inf, 0.0

    def note(self, *, began_s: float, ended_s: float) -> None:
        """Note a round that is over."""
        self._ended_s, self._took_s = ended_s, ended_s - began_s

    def rest_s(self, trigger: str, *, now_s: float) -> float:
        """Return how long a round waits; a regular one does not."""
        if trigger == "beat":
            return 0.0
        times, most_s = (REST_OF_SUBMITS, REST_OF_SUBMITS_MOST_S) if trigger == "submit" else (REST, REST_MOST_S)
        return max(0.0, self._ended_s + min(most_s, times * self._took_s) - now_s)


# Of each minute, and of each ten seconds: a round on the same worker waits at most so long for it.
CLEAN_UP_S = 2.0
ROLL_UP_S = 1.0
FAILURES_TOLD = 5  # in a row: the clean-up comes once a minute, and one that failed once is no trouble to anyone

# One round at a time in this process; the counter of rounds does the same between processes.
_round = threading.Lock()
_pace = Pace()
_steps = Steps(by="tasks", failures=FAILURES_TOLD)


@shared_task(name="scheduler.run_round")  # type: ignore[untyped-decorator]  # celery has no stubs
def run_round(trigger: str) -> None:
    """Decide and apply one round."""
    ports = live_ports()
    with _round:
        threading.Event().wait(_pace.rest_s(trigger, now_s=ports.clock.mono_s()))
        bell().round_begins()
        began_s = ports.clock.mono_s()
        try:
            round_run(ports, trigger)
        finally:
            _pace.note(began_s=began_s, ended_s=ports.clock.mono_s())


@shared_task(name="scheduler.roll_up_samples")  # type: ignore[untyped-decorator]  # celery has no stubs
def roll_up_samples() -> None:
    """Make old samples coarser, as far as the share of time goes: 1,000 servers with a job each need half of it."""
    at, until_s = live_ports().clock.now(), time.monotonic() + ROLL_UP_S
    roll_up = partial(samples_roll_up, at=at, go_on=lambda: time.monotonic() < until_s)
    _steps.run("roll-up of samples", roll_up, at=at)
    _steps.raise_away()


@shared_task(name="scheduler.remove_old_rows")  # type: ignore[untyped-decorator]  # celery has no stubs
def remove_old_rows() -> None:
    """Remove what is older than the policy allows, as far as this minute's share of time goes.

    A database that is locked by others for long postpones it to the next minute; only as many times in a row fail it.
    """
    at, until_s = live_ports().clock.now(), time.monotonic() + CLEAN_UP_S
    clean_up = partial(old_rows_remove, at=at, go_on=lambda: time.monotonic() < until_s)
    _steps.run("clean-up", clean_up, at=at)
    _steps.raise_away()
