"""Time slicing by the whole product: more jobs than slots, each in one process from its first step to its last.

What is asked of turns holds on a busy machine too: shares are counted over whole cycles of turns as the product dates
them, and a change of turns is held against the launches of the same test. ``benchmarks.runtime slicing`` gives the
seconds.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from statistics import mean, median
from typing import Any

import pytest

from scheduler.core.model.lifecycle import HOLDING
from tests.e2e.test_gangs import gang_of, losses
from tests.e2e.test_main_job import counting, steps_of
from tests.support.e2e.stack import Client, Stack, wait_for

QUANTUM_S, STEP_S, SLOTS = 4.0, 0.05, 4
QUANTA, MOST_TURNS_APART = 30, 4.0  # of twenty turns each; a busy machine ends some of them late
Moves = list[tuple[float, str]]  # (POSIX time, state) of a job


@pytest.fixture
def turns(stack: Stack) -> Iterator[Stack]:
    """The product with turns of four seconds; afterwards as it was."""
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


def test_six_jobs_share_four_slots_equally(turns: Stack, tmp_path: Path) -> None:
    """No job falls behind from cycle to cycle; a change of turns costs a job, and a slot, less time than a launch.

    In a cycle of three quanta four slots give each of six jobs two. On a busy machine turns end late and in another
    order, so that a job that was a turn behind may be one ahead at the end; left to itself, each share
    is equal within 5 % over 25 cycles. Then a job may find its own server full and move, but by far most go on in
    the process that they were stopped in.
    """
    admin, member = turns.client("admin"), turns.client("member")
    records = [tmp_path / f"turn-{number}" for number in range(6)]
    admin.change_settings(paused=True)  # so that all of them join in the same round
    jobs = [counting(member, r, name=r.name, queue="vision", steps=100_000, step_s=STEP_S) for r in records]
    admin.change_settings(paused=False)

    def changed_s() -> list[float]:
        return changes_of_turns(told for job_id in jobs for told in events(member, job_id, new_state="parked"))

    changes = wait_for(
        "whole cycles", lambda: found if len(found := changed_s()) > QUANTA else None, within_s=400, every_s=1.0
    )
    for job_id in jobs:
        member.call("POST", f"/api/v1/jobs/{job_id}/cancel")
    for job_id in jobs:
        member.wait_state(job_id, "cancelled")

    attempts = [len(member.get(f"/api/v1/jobs/{job_id}/attempts")["results"]) for job_id in jobs]
    assert sum(attempts) <= len(jobs) + QUANTA // 3, attempts
    assert [steps_of(record) for record in records] == [list(range(len(steps_of(record)))) for record in records]
    assert all(len(set(column(record, 1))) <= most for record, most in zip(records, attempts, strict=True))
    ends = [column(record, 2) for record in records]
    steps = [sum(changes[0] <= end < changes[QUANTA] for end in of_job) for of_job in ends]
    assert max(steps) - min(steps) <= MOST_TURNS_APART * QUANTUM_S / STEP_S, (steps, changes)
    launches_s, going_on_s = waits_for_a_step([moves_of(member, job_id) for job_id in jobs], ends)
    assert len(going_on_s) >= QUANTA
    assert median(going_on_s) < median(launches_s), (going_on_s, launches_s)
    assert lost_a_turn_s(ends, changes[0], changes[QUANTA], quanta=QUANTA) <= median(launches_s)


def changes_of_turns(parked: Iterable[dict[str, Any]]) -> list[float]:
    """Return when rounds changed turns, POSIX time, oldest first: when they asked jobs off, which then told it."""
    asked = [datetime.fromisoformat(told["at"]).timestamp() - told["data"]["asked_s"] for told in parked]
    return [at for before, at in pairwise([0.0, *sorted(asked)]) if at - before > QUANTUM_S / 2]


def lost_a_turn_s(ends: list[list[float]], begin_s: float, end_s: float, *, quanta: int) -> float:
    """Return the slot-seconds of a turn in which no job trained, however long turns are.

    Jobs in turn would train all the time, at the pace that these have within their turns.
    """
    windows = [[end for end in of_job if begin_s <= end < end_s] for of_job in ends]
    paces_s = [after - before for of_job in windows for before, after in pairwise(of_job)]
    step_s = mean(pace_s for pace_s in paces_s if pace_s < QUANTUM_S / 2)
    offered_s, trained_s = SLOTS * (end_s - begin_s), sum(map(len, windows)) * step_s
    return (offered_s - trained_s) / (SLOTS * quanta)


def column(record: Path, number: int) -> list[float]:
    """Return one column of what a job wrote down of its steps."""
    return [float(line.split()[number]) for line in record.read_text().splitlines()]


def waits_for_a_step(moves: list[Moves], ends: list[list[float]]) -> tuple[list[float], list[float]]:
    """Return how long jobs had GPUs before their first step ended: those that were launched, and those that went on.

    Whoever was stopped before it came to a step is left out.
    """
    waits_s: dict[str, list[float]] = {"launching": [], "running": []}
    for own, of_job in zip(moves, ends, strict=True):
        state_at = {at: state for at, state in own if state in waits_s}
        for at, until in ran(own):
            waits_s[state_at[at]] += [end - at for end in of_job if at < end <= until][:1]
    return waits_s["launching"], waits_s["running"]


def turns_of(client: Client, job_id: str) -> list[tuple[float, float]]:
    """Return the turns of a job, POSIX time: from its first state on GPUs until a round asked it off them.

    The other gang may begin where the ranks of one server have left while those of another still leave.
    """
    turns: list[tuple[float, float]] = []
    begin: float | None = None
    for told in sorted(events(client, job_id, kind="job_state"), key=lambda event: int(event["id"])):
        at = datetime.fromisoformat(told["at"]).timestamp()
        if told["new_state"] in HOLDING:
            begin = at if begin is None else begin
        elif begin is not None:
            turns.append((begin, at - told["data"]["asked_s"]))
            begin = None
    # Where a turn that lasts ends is not known; its beginning is.
    return turns if begin is None else [*turns, (begin, begin)]


def test_gangs_take_turns_as_one(turns: Stack, tmp_path: Path) -> None:
    """Two gangs of three on four slots of two servers: all ranks of one train or none, in the same processes."""
    member = turns.client("member")
    records = [tmp_path / "gang-1", tmp_path / "gang-2"]
    jobs = [gang_of(member, record, steps=100_000, gpus=3, max_servers=2) for record in records]

    def had_turns() -> bool:
        return all(len(events(member, job_id, new_state="parked")) >= 2 for job_id in jobs)

    wait_for("two turns of each", had_turns, within_s=240, every_s=1.0)
    spans = [turns_of(member, job_id) for job_id in jobs]
    for job_id in jobs:
        member.call("POST", f"/api/v1/jobs/{job_id}/cancel")
    for job_id in jobs:
        member.wait_state(job_id, "cancelled")

    for job_id, record in zip(jobs, records, strict=True):
        assert len(member.get(f"/api/v1/jobs/{job_id}/attempts")["results"]) == 1
        assert len({line.split()[2] for line in record.read_text().splitlines()}) == 3
    assert not [(own, other) for own in spans[0] for other in spans[1] if own[0] < other[1] and other[0] < own[1]]
    first, second = (losses(record) for record in records)
    common = min(len(first), len(second))
    assert common > 0
    assert first[:common] == pytest.approx(second[:common], rel=1e-4)
