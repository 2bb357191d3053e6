"""A job with a Python environment of its own starts on servers alone that have it, and holds nothing before."""

from dataclasses import replace

import numpy as np
import pytest

from scheduler.core.model.errors import PlanInvariantError
from scheduler.core.model.plan import WaitReason
from scheduler.core.model.tables import Snapshot
from scheduler.core.round.config import SchedulerConfig
from scheduler.core.round.invariants import check
from scheduler.core.round.plan_round import plan_round
from scheduler.introspection import INTROSPECTIONS
from scheduler.mechanisms import MECHANISMS
from scheduler.placement import LOCALITIES
from scheduler.policies import POLICIES
from tests.support.simulator.strategies import JobRow, QueueRow, ServerRow, snapshot_of
from tests.unit.core.round.test_barred import QUEUES, _job, _plan, every_part

OPEN = 1


def _snapshot(jobs: list[JobRow], servers: int, *ready: int, queues: list[QueueRow] = QUEUES) -> Snapshot:
    """Return a cluster in which the first job's environment is ready on these servers, ids from 1."""
    snapshot = snapshot_of(jobs, [ServerRow()] * servers, queues)
    return replace(snapshot, prepared=((int(snapshot.jobs.job_id[0]), ready),))


@every_part
@pytest.mark.parametrize("ready", [1, 2])
def test_job_starts_on_the_server_that_has_it(names: tuple[str, str, str], ready: int) -> None:
    """Jobs beside it, of its own queue too, use either server."""
    plan = _plan(_snapshot([_job(2), _job(2), _job(4, OPEN)], 2, ready), names)

    assert plan.grants.server[plan.grants.job == 0].tolist() == [ready - 1]
    assert len(plan.waiting) == 0


@every_part
def test_job_waits_for_it_and_holds_neither_gpus_nor_quota(names: tuple[str, str, str]) -> None:
    """The second job of the queue gets all that the queue may have."""
    queues = [QueueRow(quota_gpus=8), QueueRow(quota_gpus=8, may_borrow=False, max_gpus=8)]
    plan = _plan(_snapshot([_job(8), _job(8)], 2, queues=queues), names)

    (waiting,) = plan.waiting
    assert (waiting.job, waiting.reason) == (0, WaitReason.PREPARING_ENVIRONMENT)
    assert waiting.evidence == {"needed_gpus": 8, "ready_servers": 0, "servers": 2}
    assert plan.grants.job.tolist() == [1]


def test_no_job_is_stopped_for_one_whose_environment_is_not_ready() -> None:
    """A borrower keeps the server that the quota of the other queue would take back."""
    held = replace(_job(8, OPEN, first_start_s=0.0, unsaved_s=1.0), seats=((0, 8),))
    plan = _plan(_snapshot([_job(8, priority=99.0, waited_s=1e6), held], 1))

    assert not plan.preemptions
    assert plan.kept == {1}


def test_job_whose_servers_are_full_waits_for_another_one() -> None:
    """Ready on one of two servers, which is held by a job that may not be stopped."""
    holder = _job(8, OPEN, seats=((0, 8),), first_start_s=0.0, preemptible=False)
    (waiting,) = _plan(_snapshot([_job(4), holder], 2, 1)).waiting

    assert waiting.reason is WaitReason.PREPARING_ENVIRONMENT
    assert waiting.evidence["ready_servers"] == 1


def test_job_that_no_server_could_hold_is_told_so() -> None:
    """Its environment is not what keeps it waiting."""
    (waiting,) = _plan(_snapshot([_job(16)], 2)).waiting

    assert waiting.reason is WaitReason.NEVER_FEASIBLE


def test_gang_starts_when_enough_servers_have_it() -> None:
    """Two servers for one job."""
    gang = _job(16, max_servers=2)

    assert _plan(_snapshot([gang], 3, 1)).waiting.causes[0][0] is WaitReason.PREPARING_ENVIRONMENT
    assert sorted(_plan(_snapshot([gang], 3, 1, 3)).grants.server.tolist()) == [0, 2]


@every_part
def test_running_job_stays_where_it_is(names: tuple[str, str, str]) -> None:
    """Its environment left the report of its server, as of an agent that starts anew."""
    runs = _job(2, seats=((0, 2),), first_start_s=0.0)

    assert _plan(_snapshot([runs], 2), names).kept == {0}


@pytest.mark.parametrize("introspection", INTROSPECTIONS)
@pytest.mark.parametrize("seed", range(10))
def test_no_round_of_introspection_brings_a_job_elsewhere(introspection: str, seed: int) -> None:
    """It moves and packs jobs by rules of its own; ``plan_round`` checks each plan."""
    rng = np.random.default_rng(seed)
    jobs = [
        _job(1, rate=1.0, first_start_s=0.0, seats=((int(rng.integers(0, 3)), 1),) if number < 4 else ())
        for number in range(8)
    ]
    snapshot = snapshot_of(jobs, [ServerRow()] * 3, QUEUES)
    ready = [tuple(range(1, 1 + int(rng.integers(0, 4)))) for _ in jobs]
    snapshot = replace(snapshot, prepared=tuple(zip(snapshot.jobs.job_id.tolist(), ready, strict=True)))
    config = SchedulerConfig(
        policy=POLICIES["srtf"](),
        locality=LOCALITIES["any"](),
        mechanism=MECHANISMS["proportional"](),
        introspection=(INTROSPECTIONS[introspection](),),
    )

    plan_round(snapshot, config)


def test_plan_that_brings_a_job_to_a_server_without_it_is_refused() -> None:
    """The check knows the rule by itself."""
    snapshot = _snapshot([_job(2)], 1, 1)
    plan = _plan(snapshot)

    with pytest.raises(PlanInvariantError, match="may not use"):
        check(plan, replace(snapshot, prepared=((int(snapshot.jobs.job_id[0]), ()),)))
