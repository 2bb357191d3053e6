"""A loss that meets a report of the same server, each in a transaction of its own connection: one waits for the other.

Only PostgreSQL lets two transactions write at once. The last test runs the others on one of its own.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pytest
from django.db import connection, transaction

from benchmarks.support.postgres import postgres, programs
from scheduler.core.model.lifecycle import EndCause, JobState
from scheduler.live.reports.apply_report import report_apply
from scheduler.live.reports.intake import Taken, reports_open
from scheduler.live.servers.lost import server_lost
from scheduler.models import Event, Job, Lease, LeaseGpu, Server
from scheduler.models.server import ServerState
from tests.support.e2e.stack import wait_for
from tests.support.live.ports import FakeAgent
from tests.support.live.world import World

First = TypeVar("First")
Second = TypeVar("Second")

pytestmark = pytest.mark.django_db(transaction=True)
two_writers = pytest.mark.skipif(connection.vendor != "postgresql", reason="run on a PostgreSQL by the last test here")


def both(first: Callable[[], First], second: Callable[[], Second]) -> tuple[First, Second]:
    """Run two transactions at once: the second begins before the first commits, and waits for rows that it holds."""

    def in_its_own_connection() -> Second:
        try:
            return second()
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as thread:
        with transaction.atomic():
            found = first()
            later = thread.submit(in_its_own_connection)
            wait_for("the second waits for a lock", someone_waits)
        return found, later.result()


def someone_waits() -> bool:
    """Return whether a transaction waits for a lock of another."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT COUNT(*) FROM pg_locks WHERE NOT granted")
        return bool(cursor.fetchone()[0])


class Meeting:
    """A server of one slot, silent for too long by what the scheduler has read, and its next report, which has come."""

    def __init__(self, world: World, *, says: str) -> None:
        self.world, self.agent = world, world.server("alpha", slots=1)
        self.job = world.submit()
        world.until_state(self.job, JobState.RUNNING)
        row = Server.objects.get()
        self.stamp = (row.report_epoch, row.report_sequence)
        self.agent.work(5)
        self.step = self.agent.attempt_of(self.job.pk).step
        if says == "completed":
            self.agent.end(self.job.pk, cause="completed", exit_code=0)
        self.taken = self._taken(self.agent)

    def _taken(self, agent: FakeAgent) -> Taken:
        [taken] = reports_open([(agent.server_id, agent.report())], at=self.world.clock.now()).taken
        return taken

    def lose(self) -> set[str]:
        """Give the server up; return the servers to tell."""
        return server_lost(self.agent.server_id, stamp=self.stamp, silent_s=50.0, at=self.world.clock.now())

    def hear(self) -> bool:
        """Apply the report; return whether it counts as old."""
        return report_apply(self.taken, at=self.world.clock.now()).is_stale

    def go_on(self) -> None:
        """Let time pass; at no moment has the job two processes, or a GPU two leases."""
        for _ in range(15):
            self.world.pass_time(1)
            processes = [one for one in self.agent.attempts.values() if one.phase in ("starting", "running")]
            assert len(processes) <= 1
            assert LeaseGpu.objects.filter(released_at=None).count() <= 1


def losses() -> int:
    """Return how often a server was given up."""
    return Event.objects.filter(kind="server_state", new_state=ServerState.LOST).count()


@two_writers
@pytest.mark.parametrize("says", ["goes on", "completed"])
def test_loss_before_a_report_holds(world: World, says: str) -> None:
    """The report finds the server fenced: its job is queued again, or over if it says that it had completed."""
    meeting = Meeting(world, says=says)
    told, is_stale = both(meeting.lose, meeting.hear)

    state = JobState.COMPLETED if says == "completed" else JobState.QUEUED
    cause = EndCause.COMPLETED if says == "completed" else EndCause.SERVER_LOST
    assert (told, is_stale) == ({meeting.agent.server_id}, False)
    assert Server.objects.get().state == ServerState.LOST
    assert not Lease.objects.filter(closed_at=None).exists()
    assert [attempt.end_cause for attempt in world.attempts(meeting.job)] == [cause]
    assert world.state(meeting.job) == state
    meeting.go_on()
    assert losses() == 1
    assert Server.objects.get().state == ServerState.UP
    assert [attempt.end_cause for attempt in world.attempts(meeting.job)] == [cause, ""][: 1 + (state == "queued")]
    assert world.state(meeting.job) == (state if state == JobState.COMPLETED else JobState.RUNNING)


@two_writers
@pytest.mark.parametrize("says", ["goes on", "completed"])
def test_report_before_a_loss_holds(world: World, says: str) -> None:
    """The loss finds a newer report than the one that it went by, and does nothing."""
    meeting = Meeting(world, says=says)
    is_stale, told = both(meeting.hear, meeting.lose)

    ended = says == "completed"
    assert (is_stale, told) == (False, set())
    assert Server.objects.get().state == ServerState.UP
    assert Lease.objects.filter(closed_at=None).exists() != ended
    assert world.state(meeting.job) == (JobState.COMPLETED if ended else JobState.RUNNING)
    assert Job.objects.get().step == meeting.step
    meeting.go_on()
    assert losses() == 0
    assert len(world.attempts(meeting.job)) == 1


@two_writers
def test_two_schedulers_that_saw_the_same_silence_give_a_server_up_once(world: World) -> None:
    """The second waits for the first, and finds the server lost."""
    meeting = Meeting(world, says="goes on")

    assert both(meeting.lose, meeting.lose) == ({meeting.agent.server_id}, set())
    assert losses() == 1


@two_writers
def test_two_schedulers_take_one_report_once(world: World) -> None:
    """The second waits for the first, and finds that it is no newer."""
    meeting = Meeting(world, says="completed")

    assert both(meeting.hear, meeting.hear) == (False, True)
    assert Event.objects.filter(job=meeting.job, new_state=JobState.COMPLETED).count() == 1


@pytest.mark.long
@pytest.mark.skipif(programs() is None, reason="TWO WRITERS AT ONCE ARE NOT TESTED: no PostgreSQL here")
def test_postgresql_runs_the_tests_above(processes: None) -> None:
    """In a process of their own, as this one has its database already."""
    with postgres() as url:
        ours = ("DJANGO_SETTINGS_MODULE", "VAR_DIR", "PYTEST_")  # the set-up of this run and of its worker
        env = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        command = [sys.executable, "-m", "pytest", "-q", "-rs", "-n", "0", "-k", "not postgresql", __file__]
        done = subprocess.run(command, env=env | {"DATABASE_URL": url}, capture_output=True, text=True)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "100%" in done.stdout
    assert "SKIPPED" not in done.stdout
