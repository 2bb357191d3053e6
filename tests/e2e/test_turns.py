"""Time slicing by the whole product: more jobs than slots, each in one process from its first step to its last.

What is asked of turns holds on a busy machine too: shares are counted in turns, and a change of turns is held against
the launches of the same test. ``benchmarks.runtime slicing`` gives the seconds.
"""

from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from statistics import mean, median
from typing import Any

import pytest

from scheduler.core.lifecycle import HOLDING
from tests.e2e.stack import Client, Stack, wait_for
from tests.e2e.test_gangs import gang_of, losses
from tests.e2e.test_main_job import counting, steps_of

pytestmark = pytest.mark.slow
QUANTUM_S, STEP_S, STEPS = 3.0, 0.05, 300
# So many turns of each job make a share; one who joined first, or whose turn ends last, has one more.
LEAST_TURNS = 2
Moves = list[tuple[float, str]]  # (POSIX time, state) of a job


@pytest.fixture
def turns(stack: Stack) -> Iterator[Stack]:
    """The product with turns of three seconds; afterwards as it was."""
    admin = stack.client("admin")
    admin.change_settings(introspection=["slicing"], introspection_options={"slicing": {"quantum_s": QUANTUM_S}})
    yield stack
    admin.change_settings(introspection=[])


def events(client: Client, job_id: str, **like: str) -> list[dict[str, Any]]:
    """Return the events of a job that are like this."""
    every: list[dict[str, Any]] = client.get(f"/api/v1/jobs/{job_id}/events?limit=500")["results"]
    return [event for event in every if all(event[name] == value for name, value in like.items())]


def moves_of(client: Client, job_id: str) -> Moves:
    """Return what states a job came to, and when, oldest first."""
    told = events(client, job_id, kind="job_state")
    return sorted((datetime.fromisoformat(event["at"]).timestamp(), event["new_state"]) for event in told)


def ran(moves: Moves) -> list[tuple[float, float]]:
    """Return from when until when a job had its GPUs: from its launch, or from going on, until it was off them."""
    spans = [(at, until) for (at, state), (until, _) in pairwise(moves) if state in ("launching", "running")]
    joined: list[tuple[float, float]] = []
    for begin, end in spans:
        if joined and joined[-1][1] == begin:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((begin, end))
    return joined


def test_six_jobs_take_turns_on_four_slots(turns: Stack, tmp_path: Path) -> None:
    """Every job trains early, is parked, goes on, and trains each step exactly once."""
    member = turns.client("member")
    records = [tmp_path / f"turn-{number}" for number in range(6)]
    jobs = [counting(member, record, name=record.name, queue="vision", steps=80) for record in records]

    done = [member.wait_state(job_id, "completed", "failed", within_s=240) for job_id in jobs]

    assert [job["state"] for job in done] == ["completed"] * 6
    assert [steps_of(record) for record in records] == [list(range(80))] * 6
    events = [member.get(f"/api/v1/jobs/{job_id}/events")["results"] for job_id in jobs]
    assert sum(any(event["new_state"] == "parked" for event in of_job) for of_job in events) >= 4


@pytest.mark.timed
def test_six_jobs_share_four_slots_equally(turns: Stack, tmp_path: Path) -> None:
    """Each trains every step once, and none has had a turn more than another when the first is done."""
    member = turns.client("member")
    jobs, records = counted(member, tmp_path, 6)

    spans = [ran(moves_of(member, job_id)) for job_id in jobs]
    end_s = min(own[-1][1] for own in spans)
    had_s = [sum(max(0.0, min(until, end_s) - at) for at, until in own) for own in spans]
    turn_s = max(QUANTUM_S, mean(until - at for own in spans for at, until in own[:-1]))
    assert [steps_of(record) for record in records] == [list(range(STEPS))] * 6
    assert min(had_s) >= LEAST_TURNS * QUANTUM_S, had_s
    assert max(had_s) - min(had_s) <= turn_s, (had_s, turn_s)


@pytest.mark.timed
def test_change_of_turns_goes_on_in_the_same_process_sooner_than_a_launch(
    one_server: Stack, turns: Stack, tmp_path: Path
) -> None:
    """Three jobs on two slots of one server: the first step comes sooner to who goes on than to who is launched."""
    member = turns.client("member")
    jobs, records = counted(member, tmp_path, 3)

    spans = [ran(moves_of(member, job_id)) for job_id in jobs]
    launches_s, going_on_s = waits_for_a_step(spans, [column(record, 2) for record in records])
    leaving_s = [told["data"]["asked_s"] for job_id in jobs for told in events(member, job_id, new_state="parked")]
    assert [steps_of(record) for record in records] == [list(range(STEPS))] * 3
    assert [len(set(column(record, 1))) for record in records] == [1] * 3
    assert [len(member.get(f"/api/v1/jobs/{job_id}/attempts")["results"]) for job_id in jobs] == [1] * 3
    assert len(leaving_s) >= 2 * LEAST_TURNS
    assert median(going_on_s) < median(launches_s), (going_on_s, launches_s)


def counted(client: Client, folder: Path, count: int) -> tuple[list[str], list[Path]]:
    """Run so many jobs to their end; return their ids, and where each has noted its steps."""
    records = [folder / f"turn-{number}" for number in range(count)]
    jobs = [counting(client, r, name=r.name, queue="vision", steps=STEPS, step_s=STEP_S) for r in records]
    for job_id in jobs:
        assert client.wait_state(job_id, "completed", "failed", within_s=240)["state"] == "completed"
    return jobs, records


def column(record: Path, number: int) -> list[float]:
    """Return one column of what a job wrote down of its steps."""
    return [float(line.split()[number]) for line in record.read_text().splitlines()]


def waits_for_a_step(
    spans: list[list[tuple[float, float]]], ends: list[list[float]]
) -> tuple[list[float], list[float]]:
    """Return how long jobs had GPUs before their first step ended: those that were launched, and those that went on."""
    waits_s = [
        [min(end for end in of_job if end > at) - at for at, _ in own] for own, of_job in zip(spans, ends, strict=True)
    ]
    return [first for first, *_ in waits_s], [wait_s for _, *later in waits_s for wait_s in later]


def test_gangs_take_turns_as_one(turns: Stack, tmp_path: Path) -> None:
    """Two gangs of three on four slots of two servers: all ranks of one train or none, in the same processes."""
    member = turns.client("member")
    records = [tmp_path / "gang-1", tmp_path / "gang-2"]
    jobs = [gang_of(member, record, steps=100_000, gpus=3, max_servers=2) for record in records]

    def had_turns() -> bool:
        return all(len(events(member, job_id, new_state="parked")) >= 2 for job_id in jobs)

    wait_for("two turns of each", had_turns, within_s=240, every_s=1.0)
    for job_id in jobs:
        member.call("POST", f"/api/v1/jobs/{job_id}/cancel")
    for job_id in jobs:
        member.wait_state(job_id, "cancelled")

    for job_id, record in zip(jobs, records, strict=True):
        assert len(member.get(f"/api/v1/jobs/{job_id}/attempts")["results"]) == 1
        assert len({line.split()[2] for line in record.read_text().splitlines()}) == 3
    # In the order in which it was written: a round is dated by its beginning, which may lie before what it saw.
    told = [(int(event["id"]), event) for job_id in jobs for event in events(member, job_id, kind="job_state")]
    moves = [(event["job_id"], event["new_state"]) for _, event in sorted(told, key=lambda one: one[0])]
    on_gpus: set[str] = set()
    for job, state in moves:
        (on_gpus.add if state in HOLDING else on_gpus.discard)(job)
        assert len(on_gpus) <= 1, moves
    first, second = (losses(record) for record in records)
    common = min(len(first), len(second))
    assert common > 0
    assert first[:common] == pytest.approx(second[:common], rel=1e-4)
