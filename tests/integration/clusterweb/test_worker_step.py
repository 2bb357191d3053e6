"""Threads of the workers outlive what goes wrong, and start only with the worker of their queue."""

import threading
from types import SimpleNamespace

import pytest
from django.db import DatabaseError

from scheduler import worker_step
from scheduler.live import worker as live_worker
from scheduler.live.worker import EngineStep
from scheduler.notices.worker import NoticesStep
from scheduler.whatif.worker import SimulationStep
from scheduler.worker_step import RepeatingThreads, WorkerStep
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
    threads.start("step", step, rest_s=lambda: 0.01, at_end=ended.set)

    assert again.wait(LIMIT_S)

    threads.stop()
    seen = len(calls)

    assert ended.is_set()
    assert len(calls) == seen
    assert not any(thread.name == "step" for thread in threading.enumerate())


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
