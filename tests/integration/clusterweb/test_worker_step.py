"""Threads of the workers outlive what goes wrong, and start only with the worker of their queue."""

import os
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import DatabaseError, IntegrityError, InterfaceError, OperationalError
from django.test import Client

from clusterweb.config.alive import FOLDER, silent
from scheduler import worker_step
from scheduler.api.health import views as health
from scheduler.live import worker as live_worker
from scheduler.live.worker import EngineStep
from scheduler.models import Cluster, Event
from scheduler.notices.worker import NoticesStep
from scheduler.services.cluster.settings import cluster_row
from scheduler.whatif.worker import SimulationStep
from scheduler.worker_step import MOST_FAILURES, Pulse, RepeatingThreads, WorkerStep
from tests.support.e2e.stack import wait_for
from tests.support.live.ports import MemoryBell, memory_ports

LIMIT_S = 20.0


@pytest.mark.parametrize("error", [ConnectionError("away"), DatabaseError("gone"), ValueError("a defect")])
def test_step_that_fails_is_tried_again(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever one step throws, the next one follows, and the last act is done at the end."""
    monkeypatch.setattr(worker_step, "PAUSE_S", 0.01)
    calls: list[int] = []
    again, ended = threading.Event(), threading.Event()

    def step() -> None:
        calls.append(len(calls))
        if len(calls) == 1:
            raise error
        again.set()

    threads = RepeatingThreads()
    threads.start("step", step, part="a step", rest_s=lambda: 0.01, at_end=ended.set)

    assert again.wait(LIMIT_S)

    threads.stop()
    seen = len(calls)

    assert ended.is_set()
    assert len(calls) == seen
    assert not any(thread.name == "step" for thread in threading.enumerate())


class Thread:
    """A thread of a worker, whose step fails by ``error``; each pause is short."""

    def __init__(self, var_dir: Path) -> None:
        self.error: Exception | None = None
        self.due_each = 1
        self._sign = var_dir / FOLDER / "what-if"
        self._turns = 0
        self._threads = RepeatingThreads()
        self._threads.start("what-if", self._step, part="what-if studies", rest_s=lambda: 0.001)

    def _step(self) -> bool:
        self._turns += 1
        if self._turns % self.due_each:
            return False
        if self.error is not None:
            raise self.error
        return True

    def turn(self, *, times: int) -> None:
        """Wait for so many whole turns."""
        until = self._turns + times + 1  # the one that is under way may have begun before
        wait_for("the turns", lambda: self._turns >= until, every_s=0.001)

    def is_silent(self) -> bool:
        """Return whether the health check of the container finds that nothing was said for the next turns."""
        self.turn(times=1)
        os.utime(self._sign, (1, 1))
        self.turn(times=2)
        return bool(silent(self._sign.parent.parent, [self._sign.name], for_s=60))

    def stop(self) -> None:
        """End it."""
        self._threads.stop()


@pytest.fixture
def thread(transactional_db: None, tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Thread]:
    """One that works, with a cluster to note its failures on."""
    monkeypatch.setattr(worker_step, "PAUSE_S", 0.001)
    monkeypatch.setattr(health, "FAILING_AFTER", timedelta())
    settings.VAR_DIR = tmp_path
    cluster_row()
    found = Thread(tmp_path)
    found.turn(times=1)
    yield found
    found.stop()


@pytest.mark.parametrize(
    "error", [ValueError("a defect"), OperationalError("disk full"), IntegrityError("no such row")]
)
def test_thread_that_always_fails_is_silent_and_told(thread: Thread, error: Exception) -> None:
    """By the health check of its container, ``/readyz`` and an event, until it works again."""
    thread.error = error
    thread.turn(times=MOST_FAILURES)

    assert thread.is_silent()
    failing = Cluster.objects.get().failing_steps
    assert failing["what-if studies"]["error"] == f"{type(error).__name__}: {error}"
    ready = Client().get("/readyz").json()["parts"]["steps"]
    assert not ready["ok"]
    assert "what-if studies since" in ready["detail"]

    thread.error = None
    thread.turn(times=2)

    assert not thread.is_silent()
    assert Cluster.objects.get().failing_steps == {}
    assert list(Event.objects.filter(kind="step").order_by("pk").values_list("reason", flat=True)) == [
        "failing",
        "well",
    ]


def test_thread_that_fails_each_time_that_something_is_due_is_silent_and_told(thread: Thread) -> None:
    """As what is done once after each round: in between it has nothing to do, which shows nothing."""
    thread.error, thread.due_each = ValueError("a defect"), 3
    thread.turn(times=3 * MOST_FAILURES)

    assert thread.is_silent()
    assert set(Cluster.objects.get().failing_steps) == {"what-if studies"}

    thread.error = None
    thread.turn(times=4)

    assert not thread.is_silent()
    assert Cluster.objects.get().failing_steps == {}


def test_thread_whose_broker_or_database_is_away_is_neither_silent_nor_told(thread: Thread) -> None:
    """A new process would find neither, and ``/readyz`` has a part for each of them."""
    for error in (ConnectionError("away"), InterfaceError("connection already closed")):
        thread.error = error
        thread.turn(times=2 * MOST_FAILURES)

        assert not thread.is_silent()

    assert Cluster.objects.get().failing_steps == {}


@pytest.mark.django_db
def test_thread_that_fails_a_few_times_is_neither_silent_nor_told(tmp_path: Path, settings: Any) -> None:
    """A container that restarts for each deadlock does more harm than good."""
    settings.VAR_DIR = tmp_path
    cluster_row()
    pulse = Pulse("what-if", "what-if studies")
    for _ in range(3):
        for _ in range(MOST_FAILURES - 1):
            pulse.failed(OperationalError("deadlock detected"))
            assert not silent(tmp_path, ["what-if"], for_s=60)
            (tmp_path / FOLDER / "what-if").unlink()
        pulse.worked()

    assert Cluster.objects.get().failing_steps == {}
    assert not Event.objects.exists()


@pytest.mark.parametrize(
    ("step", "queue"), [(EngineStep, "scheduler"), (SimulationStep, "simulations"), (NoticesStep, "notices")]
)
def test_step_belongs_to_the_worker_of_its_queue(step: type[WorkerStep], queue: str) -> None:
    """A worker of another queue starts none of its threads."""

    def worker(*consumed: str) -> SimpleNamespace:
        queues = SimpleNamespace(consume_from=dict.fromkeys(consumed))
        return SimpleNamespace(app=SimpleNamespace(amqp=SimpleNamespace(queues=queues)))

    others = {"scheduler", "simulations", "notices"} - {queue}

    assert step(worker(queue)).include_if(worker(queue, *others))
    assert not step(worker()).include_if(worker(*others))


@pytest.mark.django_db
def test_scheduler_that_starts_asks_for_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """The beat comes a whole interval after its own start, and until a round is made the product is not ready."""
    ports, bell = memory_ports()[0], MemoryBell()
    monkeypatch.setattr(live_worker, "live_ports", lambda: ports)
    monkeypatch.setattr(live_worker, "live_bell", lambda: bell)
    worker, threads = SimpleNamespace(), RepeatingThreads()
    monkeypatch.setattr(threads, "start", lambda *args, **kwargs: None)
    step = EngineStep(worker)
    try:
        step.begin(threads)
    finally:
        step.stop(worker)

    assert bell.triggers == ["start"]
