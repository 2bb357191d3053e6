"""Time slicing by the whole product: more jobs than slots, each in one process from its first step to its last."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.e2e.stack import Stack
from tests.e2e.test_gangs import gang_of, losses
from tests.e2e.test_main_job import counting, steps_of

pytestmark = pytest.mark.slow
QUANTUM_S, STEP_S = 3.0, 0.1
# At a change of turns, on a machine that does other things too; ``benchmarks.runtime slicing`` measures it.
MOST_IDLE_S = 1.5


@pytest.fixture
def turns(stack: Stack) -> Iterator[Stack]:
    """The product with turns of three seconds; afterwards as it was."""
    admin = stack.client("admin")
    admin.change_settings(introspection=["slicing"], introspection_options={"slicing": {"quantum_s": QUANTUM_S}})
    yield stack
    admin.change_settings(introspection=[])


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
def test_shares_are_equal_and_a_change_of_turns_costs_little(one_server: Stack, turns: Stack, tmp_path: Path) -> None:
    """Three jobs on two slots: when the first is done no other is behind by more than a turn; slots are rarely idle."""
    member = turns.client("member")
    records = [tmp_path / f"share-{number}" for number in range(3)]
    jobs = [counting(member, record, name=record.name, queue="vision", steps=120, step_s=STEP_S) for record in records]
    for job_id in jobs:
        assert member.wait_state(job_id, "completed", "failed", within_s=240)["state"] == "completed"

    every = [[float(line.split()[2]) for line in record.read_text().splitlines()] for record in records]
    begin_s, end_s = max(ends[0] for ends in every), min(ends[-1] for ends in every)
    trained = [sum(at <= end_s for at in ends) for ends in every]
    assert (max(trained) - min(trained)) * STEP_S <= QUANTUM_S + MOST_IDLE_S, trained
    assert idle_s(every, begin_s, end_s) <= MOST_IDLE_S
    assert [len(member.get(f"/api/v1/jobs/{job_id}/attempts")["results"]) for job_id in jobs] == [1, 1, 1]


def idle_s(every: list[list[float]], begin_s: float, end_s: float) -> float:
    """Return how long a slot is idle at a change of turns, on average over all of them between two times."""
    inside = [[at for at in ends if begin_s <= at <= end_s] for ends in every]
    steps_s = [later - at for ends in inside for at, later in pairwise(ends)]
    changes = sum(took_s > QUANTUM_S / 2 for took_s in steps_s)
    trained_s = sum(STEP_S if took_s > QUANTUM_S / 2 else took_s for took_s in steps_s)
    return (2 * (end_s - begin_s) - trained_s) / changes


@pytest.mark.timed
def test_gangs_take_turns_as_one(turns: Stack, tmp_path: Path) -> None:
    """Two gangs of three on four slots of two servers: all ranks of one train or none, in the same processes."""
    member = turns.client("member")
    records = [tmp_path / "gang-1", tmp_path / "gang-2"]
    jobs = [gang_of(member, record, steps=400, gpus=3, max_servers=2) for record in records]

    done = [member.wait_state(job_id, "completed", "failed", within_s=240) for job_id in jobs]

    assert [(job["state"], job["step"]) for job in done] == [("completed", 400)] * 2
    for job_id, record in zip(jobs, records, strict=True):
        states = [event["new_state"] for event in member.get(f"/api/v1/jobs/{job_id}/events")["results"]]
        ranks = {line.split()[2] for line in record.read_text().splitlines()}
        assert "parked" in states
        assert len(member.get(f"/api/v1/jobs/{job_id}/attempts")["results"]) == 1
        assert len(ranks) == 3
    assert losses(records[0]) == pytest.approx(losses(records[1]), rel=1e-4)
