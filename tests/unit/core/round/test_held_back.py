"""Jobs that their array or other jobs hold back: which wait, for which reason, and that all else stays as it was."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.choices import build_config
from scheduler.core.model.holds import After, ArrayLimit, holds_from, holds_json
from scheduler.core.model.plan import Plan, WaitReason
from scheduler.core.model.tables import Snapshot, only_jobs
from scheduler.core.operations.reasons import sentence
from scheduler.core.round.held_back import held_rows
from scheduler.core.round.plan_round import plan_round
from tests.support.simulator.strategies import JobRow, ServerRow, snapshot_of, snapshots
from tests.support.suite.examples import tried

CONFIG = build_config(policy="fifo", locality="consolidate", mechanism="proportional")
CONFIGS = [
    ("fifo", "consolidate", "proportional"),
    ("las", "consolidate", "tune"),
    ("srtf", "any", "greedy"),
    ("maxmin", "consolidate", "proportional"),
]


def granted(plan: Plan) -> set[int]:
    """Return the rows of the jobs that run."""
    return set(plan.grants.job.tolist())


def of(rows: list[JobRow], **holds: object) -> Snapshot:
    """Return eight free GPUs, these jobs (their ids are 1, 2, 3 ...), and what holds them back."""
    return replace(snapshot_of(rows, [ServerRow(num_gpus=8)]), **holds)  # type: ignore[arg-type]  # fields by name


def test_an_array_has_so_many_at_work() -> None:
    """Two of four start, the lowest numbers; the reason says the limit and how many are at work."""
    limit = ArrayLimit(number=1, most=2, jobs=(1, 2, 3, 4))

    plan = plan_round(of([JobRow() for _ in range(5)], arrays=(limit,)), CONFIG)

    assert granted(plan) == {0, 1, 4}
    assert [(entry.job, entry.reason) for entry in plan.waiting] == [
        (2, WaitReason.ARRAY_LIMIT),
        (3, WaitReason.ARRAY_LIMIT),
    ]
    evidence = plan.waiting[0].evidence
    assert evidence == {"array_number": 1, "array_most": 2, "array_at_work": 2}
    assert (
        sentence(WaitReason.ARRAY_LIMIT, evidence)
        == "Its array may have 2 jobs at work at once, and 2 are or come first."
    )


def test_those_that_run_or_have_run_come_first() -> None:
    """The second runs, the fourth was preempted: they are the two."""
    rows = [JobRow(), JobRow(seats=((0, 1),), first_start_s=5.0), JobRow(), JobRow(first_start_s=9.0)]

    plan = plan_round(of(rows, arrays=(ArrayLimit(number=1, most=2, jobs=(1, 2, 3, 4)),)), CONFIG)

    assert granted(plan) == {1, 3}


def test_those_at_work_outside_the_snapshot_count() -> None:
    """One that is being stopped still holds its place."""
    limit = ArrayLimit(number=1, most=2, outside=1, jobs=(1, 2))

    plan = plan_round(of([JobRow(), JobRow()], arrays=(limit,)), CONFIG)

    assert granted(plan) == {0}
    assert plan.waiting[0].evidence["array_at_work"] == 2


def test_nothing_that_runs_is_stopped_for_a_limit() -> None:
    """More than the limit run, as after a job came back: all go on, and no other starts."""
    rows = [JobRow(seats=((0, 1),)), JobRow(seats=((0, 1),)), JobRow()]

    plan = plan_round(of(rows, arrays=(ArrayLimit(number=1, most=1, jobs=(1, 2, 3)),)), CONFIG)

    assert plan.kept == {0, 1}
    assert [entry.job for entry in plan.waiting] == [2]


def test_a_job_waits_for_others_and_takes_no_place_in_its_array() -> None:
    """The first of the array waits for job 5: the second starts in its stead."""
    holds = {"arrays": (ArrayLimit(number=1, most=1, jobs=(1, 2, 3)),), "after": (After(jobs=(1,), on=(5, 9)),)}

    plan = plan_round(of([JobRow() for _ in range(5)], **holds), CONFIG)

    assert granted(plan) == {1, 3, 4}
    reasons = {entry.job: (entry.reason, entry.evidence) for entry in plan.waiting}
    assert reasons[0] == (WaitReason.DEPENDENCY, {"first_number": 5, "jobs": 2})
    assert reasons[2][0] is WaitReason.ARRAY_LIMIT


@pytest.mark.parametrize(
    ("evidence", "words"),
    [
        ({"first_number": 5, "jobs": 1}, "It waits until J-5 has ended."),
        (
            {"first_number": 5, "jobs": 1, "job": "J-5 train", "job_state": "running", "until": "completed"},
            "It waits until J-5 train has completed; that is running now.",
        ),
        (
            {"jobs": 3, "job": "J-5", "job_state": "queued", "until": "failed"},
            "It waits until J-5 has failed or was cancelled; that is queued now. It waits for 3 jobs in all.",
        ),
        (
            {"jobs": 59, "job": "A-100", "until": "completed", "array_jobs": 100, "ended_jobs": 41},
            "It waits until A-100 has completed; 41 of its 100 jobs have ended.",
        ),
        ({}, "It waits until another job has ended."),
    ],
)
def test_the_sentence_names_what_it_waits_for(evidence: dict[str, float | int | str], words: str) -> None:
    """With its name and state where they are known."""
    assert sentence(WaitReason.DEPENDENCY, evidence) == words


@pytest.mark.parametrize("chosen", CONFIGS, ids=lambda chosen: chosen[0])
@tried(40)
@given(snapshot=snapshots(), data=st.data())
def test_held_jobs_are_as_if_they_were_not_there(
    chosen: tuple[str, str, str], snapshot: Snapshot, data: st.DataObject
) -> None:
    """Never more at work than the limit lets start, no job before what it waits for, and the others as without them."""
    policy, locality, mechanism = chosen
    config = build_config(policy=policy, locality=locality, mechanism=mechanism)
    ids: list[int] = snapshot.jobs.job_id.tolist()
    members = data.draw(st.lists(st.sampled_from(ids), unique=True)) if ids else []
    late = data.draw(st.lists(st.sampled_from(ids), unique=True, max_size=4)) if ids else []
    most, outside = data.draw(st.integers(1, 4)), data.draw(st.integers(0, 2))
    limit = ArrayLimit(number=9, most=most, outside=outside, jobs=(*members,))
    holds = {"arrays": (limit,), "after": (After(jobs=(*late,), on=(99,)),)}
    held = replace(snapshot, **holds)  # type: ignore[arg-type]  # fields by name

    plan = plan_round(held, config)

    running = {ids[row] for row in range(len(ids)) if snapshot.jobs.running[row]}
    runs = {ids[row] for row in granted(plan)}
    assert not (runs - running) & set(late)
    assert len(runs & set(members)) + outside <= max(most, len(running & set(members)) + outside)
    rest = only_jobs(snapshot, np.array([row for row in range(len(ids)) if row not in held_rows(held)], dtype=np.int64))
    assert runs == {rest.jobs.job_id[row] for row in granted(plan_round(rest, config))}
    assert holds_from(holds_json(held.arrays, held.after)) == {"arrays": held.arrays, "after": held.after}


@tried(25)
@given(snapshot=snapshots())
def test_what_holds_nothing_back_changes_no_plan(snapshot: Snapshot) -> None:
    """A limit that nothing reaches decides alike to the last bit."""
    ids = tuple(snapshot.jobs.job_id.tolist())
    wide = replace(snapshot, arrays=(ArrayLimit(number=1, most=1_000, jobs=ids),))

    assert plan_round(wide, CONFIG).plan_hash == plan_round(snapshot, CONFIG).plan_hash
