"""What a chaos run is judged by: each thing that must not happen is called so, and nothing else is."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from scheduler.core.model.lifecycle import JobState
from scheduler.models import Cluster, Event, Job, Lease, LeaseGpu, Server
from scheduler.notify import use_bell
from tests.chaos.judge import Invariants, folded, violations
from tests.chaos.results import results_at
from tests.support.live.world import World

GOOD: dict[str, Any] = {
    "jobs": {"asked": 2, "states": {"completed": 2}},
    "lost": [],
    "doubled": 0,
    "not_ended": [],
    "not_completed": [],
    "twice_at_once": {},
    "left_over": [],
    "steps": {"trained": 200, "again": 7, "again_before_a_sure_checkpoint": 0, "missing_of_completed": 0},
    "invariants": {"looks": 3, "broken": []},
}


def test_run_that_only_trained_some_steps_again_broke_nothing() -> None:
    """Steps after the last checkpoint are lost by right."""
    assert violations(GOOD) == []


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"lost": [3]}, "lost"),
        ({"doubled": 1}, "doubled"),
        ({"not_ended": [1]}, "not_ended"),
        ({"not_completed": [1]}, "not_completed"),
        ({"twice_at_once": {1: ["a until 2.00, b from 1.00"]}}, "twice_at_once"),
        ({"left_over": ["pid 7"]}, "left_over"),
        ({"steps": {"again_before_a_sure_checkpoint": 1}}, "again_before_a_sure_checkpoint"),
        ({"steps": {"missing_of_completed": 1}}, "missing_of_completed"),
        ({"invariants": {"broken": ["L1: GPUs leased twice: [(1,)]"]}}, "L1: GPUs leased twice: [(1,)]"),
        ({"invariants": {"looks": 0}}, "database_not_asked"),
        ({"jobs": {"states": {"failed": 2}}}, "nothing_completed"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_violation_is_named(changed: dict[str, Any], named: str) -> None:
    """One thing is wrong, and that alone is told."""
    found = deepcopy(GOOD)
    for name, value in changed.items():
        found[name] = {**found[name], **value} if name in ("steps", "invariants", "jobs") else value

    assert violations(found) == [named]


def test_both_databases_keep_their_results() -> None:
    """A run on PostgreSQL does not overwrite what one on SQLite found."""
    assert results_at("chaos", on_postgres=False) == Path("chaos.json")
    assert results_at("chaos", on_postgres=True) == Path("chaos-postgres.json")


MOVES = [
    ("j", 1, "job_state", "", "queued"),
    ("j", 2, "job_edited", "", ""),
    ("j", 3, "job_state", "queued", "launching"),
    ("j", 4, "job_state", "launching", "running"),
    ("j", 5, "job_state", "running", "completed"),
]


@pytest.mark.parametrize(
    ("state", "events", "told"),
    [
        ("completed", MOVES, ""),
        ("running", MOVES, "is running, its events make it completed"),
        ("completed", [*MOVES[:1], *MOVES[2:]], "has the events [1, 3, 4, 5]"),
        ("completed", [*MOVES[:4], ("j", 5, "job_state", "launching", "completed")], "running, then launching"),
        ("queued", [*MOVES, ("j", 6, "job_state", "completed", "queued")], "completed, then completed -> queued"),
        ("queued", [], "is queued, its events make it nothing"),
    ],
    ids=["in order", "another state", "a gap", "another state before", "a move that is none", "no event"],
)
def test_state_is_what_the_events_make_of_it(state: str, events: list[tuple[Any, ...]], told: str) -> None:
    """S1, by the rows of a database."""
    found = folded([("j", 7, state)], events)

    assert [told in one for one in found] == ([True] if told else [])


def says(query: str) -> list[tuple[Any, ...]]:
    """Ask the database of the test as a chaos run asks its own."""
    with connection.cursor() as cursor:
        cursor.execute(query)
        return list(cursor.fetchall())


@pytest.fixture
def world(db: None) -> Iterator[World]:
    """A server that runs two jobs."""
    made = World()
    made.queue("vision")
    made.server("alpha")
    jobs = [made.submit(), made.submit()]
    made.until(lambda: all(made.state(job) == JobState.RUNNING for job in jobs))
    yield made
    use_bell(None)


def gpu_twice() -> None:
    """Give both jobs the same GPU."""
    first, second = LeaseGpu.objects.order_by("pk")
    LeaseGpu.objects.filter(pk=second.pk).update(gpu=first.gpu, slot=1)


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (gpu_twice, "L1"),
        (lambda: Server.objects.update(num_cpus=0), "L2"),
        (lambda: Server.objects.update(memory_bytes=1), "L2"),
        (lambda: LeaseGpu.objects.all()[0].delete(), "L3"),
        (lambda: Lease.objects.update(epoch=99), "L4"),
        (lambda: Server.objects.update(generation=0, acked_generation=0), "G1"),
        (lambda: Server.objects.update(report_sequence=1), "G1"),
        (lambda: Job.objects.update(event_count=0, state=JobState.LAUNCHING), "S1"),
        (lambda: Event.objects.filter(kind="job_state")[0].delete(), "S1"),
        (lambda: Event.objects.update(kind="report_unusable", reason="defect"), "T1"),
        (lambda: Event.objects.update(kind="report_rejected", data={"inconsistent": 2}), "T1"),
        (lambda: Cluster.objects.update(failing_steps={"orders": {}}), "T1"),
    ],
)
def test_database_that_breaks_an_invariant_is_found_out(world: World, spoil: Callable[[], object], named: str) -> None:
    """It was well at the look before."""
    asked = Invariants(says, wait=lambda _: None)
    asked.finish()
    assert (asked.looks, asked.broken) == (1, [])
    spoil()
    asked.finish()

    assert asked.looks == 2
    assert named in {one.partition(":")[0] for one in asked.broken}


def test_grant_that_meets_a_loss_is_given_time_to_end(world: World) -> None:
    """What a second later is gone was no lease that went on."""
    Server.objects.update(state="lost")
    asked = Invariants(says, wait=lambda _: Server.objects.update(state="up"))
    asked.look()

    assert asked.broken == []
