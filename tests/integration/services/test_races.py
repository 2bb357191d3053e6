"""Services under real contention: several connections at once, each call in a transaction of its own.

On SQLite the contenders work on a file (two connections cannot share a database in memory the way two processes share a
file); on PostgreSQL they meet in the test database itself.
"""

import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Barrier
from typing import Any, TypeVar

import pytest
from django.contrib.auth.models import User
from django.db import connection, connections

from scheduler.core.model.errors import Conflict, JobChanged, SpecInvalid
from scheduler.core.model.lifecycle import TRANSITIONS, JobState
from scheduler.models import Event, IdempotencyKey, Job, Queue, Server
from scheduler.models.queue import Role
from scheduler.notify import use_bell
from scheduler.services.cluster.servers import server_register
from scheduler.services.idempotency import idempotent
from scheduler.services.jobs.arrays import array_retry
from scheduler.services.jobs.cancel_suspend_resume import job_cancel, job_suspend
from scheduler.services.jobs.check import spec_check
from scheduler.services.jobs.state import job_transition
from scheduler.services.jobs.submit import job_submit, jobs_store
from scheduler.services.queues.quotas import queue_change_quota
from tests.support.live.ports import MemoryBell
from tests.support.rows.factories import AT, SerialIds, job_make, member_make, queue_make, spec_make, user_make

pytestmark = pytest.mark.django_db(transaction=True)

R = TypeVar("R")
IDS = SerialIds()


class Contest:
    """Runs calls at the same moment, each on a connection of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._settings = connections.settings["default"]

    def of(self, *calls: Callable[[], Any]) -> list[Any]:
        """Return what each call returned or raised."""
        self._share()
        barrier = Barrier(len(calls))

        def run(call: Callable[[], Any]) -> Any:
            barrier.wait(timeout=300)
            try:
                return call()
            except Exception as error:
                return error
            finally:
                connections.close_all()

        with ThreadPoolExecutor(len(calls)) as pool:
            return list(pool.map(run, calls))

    def after(self, read: Callable[[], R]) -> R:
        """Return what a reader sees when all is over."""

        def run() -> R:
            try:
                return read()
            finally:
                connections.close_all()

        with ThreadPoolExecutor(1) as pool:
            return pool.submit(run).result()

    def _share(self) -> None:
        """Copy a database in memory to a file that new connections open."""
        if connection.vendor != "sqlite":
            return
        path = self._folder / "contest.sqlite3"
        connection.ensure_connection()
        with sqlite3.connect(path) as copy:
            connection.connection.backup(copy)
            # As in a database in use: connections that all turn a new file to WAL at once do not wait for one another.
            copy.execute("PRAGMA journal_mode=WAL")
        copy.close()
        self._settings["NAME"] = str(path)


@pytest.fixture
def contest(tmp_path: Path) -> Iterator[Contest]:
    """Contenders that ring no real bell; the database in memory is the default one again afterwards."""
    name = connections.settings["default"]["NAME"]
    use_bell(MemoryBell())
    yield Contest(tmp_path)
    use_bell(None)
    connections.settings["default"]["NAME"] = name


def kinds(results: list[Any]) -> list[str]:
    """Return the names of the types of the results, sorted."""
    return sorted(type(result).__name__ for result in results)


def test_failed_jobs_of_an_array_are_tried_again_once(contest: Contest) -> None:
    """However many ask at once: each failed index has one new job, and no request is refused for coming second."""
    queue = queue_make("vision")
    owner = member_make(queue, Role.MEMBER)
    [first] = jobs_store([spec_check(actor=owner, spec=spec_make(array="0-3"))], at=AT, ids=IDS)
    Job.objects.filter(array_index__in=[1, 3]).update(
        state=JobState.FAILED, ended_at=AT, end_cause="command", wait_reason="", wait_since=None
    )
    retry = partial(array_retry, actor=owner, key=f"A-{first.number}", at=AT, ids=IDS)
    results = contest.of(*[retry] * 4)
    indexes = contest.after(lambda: list(Job.objects.order_by("number").values_list("array_index", flat=True)))

    assert indexes == [0, 1, 2, 3, 1, 3]
    assert {type(result) for result in results} <= {list, Conflict}, results
    assert any(isinstance(result, list) for result in results)


def test_one_of_many_transitions_wins(contest: Contest) -> None:
    """Of nine writers one at a time moves it along the table; the others are told, and no event is lost."""
    job = job_make()
    results = contest.of(*[partial(_move, job.pk, to) for to in [*sorted(TRANSITIONS[JobState.QUEUED])] * 3])
    states = contest.after(
        lambda: list(Event.objects.filter(job=job).order_by("number").values_list("number", "new_state"))
    )
    stored = contest.after(lambda: Job.objects.get(pk=job.pk))

    assert [number for number, _ in states] == list(range(1, stored.event_count + 1))
    assert states[-1][1] == stored.state
    assert all(result is None or type(result).__name__ in {"JobChanged", "InvalidTransition"} for result in results)


def _move(job_pk: str, to: JobState) -> None:
    job_transition(job=Job.objects.get(pk=job_pk), to=to, at=AT, actor="x", reason="test")


def test_stale_readers_lose(contest: Contest) -> None:
    """Rows that were read before the others wrote never win a second time."""
    job = job_make()
    copies = [Job.objects.get(pk=job.pk) for _ in range(6)]
    move = partial(job_transition, to=JobState.LAUNCHING, at=AT, actor="x", reason="test")
    results = contest.of(*[partial(move, job=copy) for copy in copies])

    assert kinds(results) == ["JobChanged"] * 5 + ["NoneType"]
    assert all(isinstance(result, JobChanged) for result in results if result is not None)


def test_submissions_at_once_get_numbers_without_twins_or_gaps(contest: Contest) -> None:
    """Numbers are taken in the transaction of the job."""
    member = member_make(queue_make("vision"))
    results = contest.of(*[lambda: job_submit(actor=member, spec=spec_make(), at=AT, ids=IDS).number] * 8)

    assert sorted(results) == list(range(1, 9))


def test_cancel_and_suspend_at_once_end_in_cancelled(contest: Contest) -> None:
    """Whoever comes second acts on what the first has left."""
    queue = queue_make("vision")
    member = member_make(queue, Role.LEAD)
    job = job_make(queue, owner=member)
    results = contest.of(
        lambda: job_cancel(actor=member, job=job, at=AT).state,
        lambda: job_suspend(actor=member, job=job, at=AT).state,
    )
    stored = contest.after(lambda: Job.objects.get(pk=job.pk))

    assert stored.state == JobState.CANCELLED
    assert all(isinstance(result, Conflict) or result in {"cancelled", "suspended"} for result in results)


def test_two_quota_changes_on_one_version(contest: Contest) -> None:
    """One is saved, the other is refused; nothing is lost silently."""
    admin, queue = user_make(admin=True), queue_make("lab")
    results = contest.of(*[partial(_change, admin, queue)] * 4)

    assert kinds(results) == ["Conflict"] * 3 + ["Queue"]
    assert contest.after(lambda: Queue.objects.get(pk=queue.pk).version) == 2


def test_siblings_cannot_both_take_the_last_gpus(contest: Contest) -> None:
    """The sum below a queue holds although each change alone would fit."""
    admin, root = user_make(admin=True), queue_make("lab", quota_gpus=10)
    siblings = [queue_make(name, parent=root, quota_gpus=2) for name in ("a", "b")]
    results = contest.of(*[partial(_change, admin, queue) for queue in siblings])

    assert sum(isinstance(result, SpecInvalid) for result in results) == 1
    assert contest.after(lambda: sum(q.quota_gpus for q in Queue.objects.filter(parent=root))) == 10


def _change(admin: User, queue: Queue) -> Queue:
    return queue_change_quota(
        actor=admin,
        queue=queue,
        quota_gpus=8,
        max_gpus=None,
        weight=1.0,
        may_borrow=True,
        reason="test",
        expected_version=1,
        at=AT,
    )


def test_one_key_at_once_has_one_effect(contest: Contest) -> None:
    """Six requests with one key: one job, six equal answers."""
    member = member_make(queue_make("vision"))

    def make() -> tuple[int, Any, str]:
        job = job_submit(actor=member, spec=spec_make(), at=AT, ids=IDS)
        return 201, {"number": job.number}, f"/jobs/{job.pk}"

    def ask() -> Any:
        return idempotent(user=member, route="jobs", key="k", body_hash="b", at=AT, make=make)

    results = contest.of(*[ask] * 6)

    assert {answer.location for answer in results} == {results[0].location}
    assert sorted(answer.replayed for answer in results) == [False] + [True] * 5
    assert contest.after(lambda: (Job.objects.count(), IdempotencyKey.objects.count())) == (1, 1)


def test_servers_registered_at_once_have_numbers_of_their_own(contest: Contest) -> None:
    """Numbers of servers are rows in the core: each exists once."""
    admin = user_make(admin=True)
    results = contest.of(*[partial(_register, admin, f"gpu-{n}") for n in range(5)])

    assert sorted(results) == [1, 2, 3, 4, 5]
    assert contest.after(Server.objects.count) == 5


def _register(admin: User, name: str) -> int:
    return server_register(actor=admin, name=name, at=AT).number
