"""Jobs of a queue start on no server that does not keep jobs apart as the queue demands."""

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from scheduler.core.model.errors import PlanInvariantError
from scheduler.core.model.plan import Plan, WaitReason
from scheduler.core.model.tables import Snapshot
from scheduler.core.operations.needed_change import needed_change
from scheduler.core.round.config import SchedulerConfig
from scheduler.core.round.invariants import check
from scheduler.core.round.plan_round import plan_round
from scheduler.introspection import INTROSPECTIONS
from scheduler.mechanisms import MECHANISMS
from scheduler.placement import LOCALITIES
from scheduler.policies import POLICIES
from tests.support.simulator.strategies import JobRow, QueueRow, ServerRow, snapshot_of

NAMES = [("srtf", *rest) for rest in product(LOCALITIES, MECHANISMS)]
NAMES += [(policy, "consolidate", "tune") for policy in POLICIES if policy != "srtf"]
every_part = pytest.mark.parametrize("names", NAMES, ids="-".join)
OPEN, STRICT = 1, 2  # ids of queues; rows are one less
QUEUES = [QueueRow(quota_gpus=8), QueueRow(quota_gpus=8)]


def _plan(snapshot: Snapshot, names: tuple[str, str, str] = ("fifo", "consolidate", "proportional")) -> Plan:
    policy, locality, mechanism = names
    config = SchedulerConfig(
        policy=POLICIES[policy](), locality=LOCALITIES[locality](), mechanism=MECHANISMS[mechanism]()
    )
    return plan_round(snapshot, config)


def _job(gpus: int, queue: int = STRICT, **columns: object) -> JobRow:
    row = JobRow(queue=queue - 1, num_gpus=gpus, remaining_s=900.0, total_s=900.0)
    return replace(row, **columns)  # type: ignore[arg-type]  # names and types are the caller's


def _barred(jobs: list[JobRow], servers: int, *ids: int) -> Snapshot:
    """Return a cluster with these servers barred to the strict queue."""
    snapshot = snapshot_of(jobs, [ServerRow()] * servers, QUEUES)
    return replace(snapshot, barred=tuple((STRICT, server) for server in ids))


@every_part
@pytest.mark.parametrize("barred", [1, 2])
def test_job_starts_on_the_other_server(names: tuple[str, str, str], barred: int) -> None:
    """Whichever of two it is, beside jobs of a queue that demands nothing."""
    plan = _plan(_barred([_job(2), _job(2, OPEN), _job(4, OPEN)], 2, barred), names)

    assert plan.grants.server[plan.grants.job == 0].tolist() == [2 - barred]
    assert len(plan.waiting) == 0


@every_part
def test_job_waits_rather_than_to_start_on_a_barred_server(names: tuple[str, str, str]) -> None:
    """The reason has the numbers."""
    plan = _plan(_barred([_job(4)], 2, 1, 2), names)

    (waiting,) = plan.waiting
    assert waiting.reason is WaitReason.ISOLATION
    assert waiting.evidence == {
        "needed_gpus": 4,
        "queue_id": STRICT,
        "barred_servers": 2,
        "servers": 2,
        "largest_possible_gpus": 0,
    }


def test_job_that_no_server_could_hold_is_told_so() -> None:
    """What the queue demands is not what keeps it waiting."""
    (waiting,) = _plan(_barred([_job(16)], 2, 1)).waiting

    assert waiting.reason is WaitReason.NEVER_FEASIBLE


def test_job_waits_for_the_servers_that_it_may_use() -> None:
    """Two servers of three are barred and free; the third is held by a job that may not be stopped."""
    holder = _job(8, OPEN, seats=((2, 8),), first_start_s=0.0, preemptible=False)
    plan = _plan(_barred([_job(4), holder], 3, 1, 2))

    (waiting,) = plan.waiting
    assert (waiting.reason, waiting.evidence["barred_servers"]) == (WaitReason.ISOLATION, 2)
    assert not needed_change(waiting.reason, waiting.evidence)


def test_job_too_large_for_the_servers_that_it_may_use_is_told_so() -> None:
    """The only one that is not barred has four GPUs: no end of a job makes room for eight."""
    snapshot = snapshot_of([_job(8)], [ServerRow(), ServerRow(num_gpus=4)], QUEUES)
    (waiting,) = _plan(replace(snapshot, barred=((STRICT, 1),))).waiting

    assert (waiting.reason, waiting.evidence["largest_possible_gpus"]) == (WaitReason.ISOLATION, 4)
    assert "can give it 8 GPUs, or it asks for fewer" in needed_change(waiting.reason, waiting.evidence)


@every_part
@pytest.mark.parametrize(
    "columns", [{}, {"lent": True}, {"min_gpus": 1, "max_gpus": 4}], ids=["rigid", "lent", "elastic"]
)
@pytest.mark.parametrize("barred", [(1,), (1, 2)], ids=str)
def test_running_job_stays_where_it_is(
    names: tuple[str, str, str], columns: dict[str, Any], barred: tuple[int, ...]
) -> None:
    """It was started as the server was then; a demand stops nothing, whichever servers are barred."""
    runs = _job(2, seats=((0, 2),), first_start_s=0.0, **columns)
    plan = _plan(_barred([runs], 2, *barred), names)

    assert plan.kept | plan.resized == {0}
    assert not plan.preemptions


@every_part
def test_no_job_is_stopped_for_one_that_may_not_use_its_server(names: tuple[str, str, str]) -> None:
    """A borrower holds the barred server, another one the open one: only the latter may have to leave."""
    held = [replace(_job(8, OPEN, first_start_s=0.0, unsaved_s=1.0), seats=((server, 8),)) for server in (0, 1)]
    plan = _plan(_barred([_job(8, priority=99.0, waited_s=1e6), *held], 2, 1), names)

    assert 1 not in {preemption.job for preemption in plan.preemptions}


@pytest.mark.parametrize("introspection", INTROSPECTIONS)
@pytest.mark.parametrize("seed", range(20))
def test_no_round_of_introspection_brings_a_job_to_a_barred_server(introspection: str, seed: int) -> None:
    """It moves and packs jobs by rules of its own; ``plan_round`` checks each plan."""
    rng = np.random.default_rng(seed)
    jobs = [
        _job(
            int(rng.integers(1, 6)),
            queue=int(rng.integers(1, 3)),
            rate=1.0,
            seats=((server, 1),) if (server := int(rng.integers(0, 3))) < 2 and number < 4 else (),
            first_start_s=0.0,
        )
        for number in range(8)
    ]
    jobs = [replace(job, num_gpus=1) if job.seats else job for job in jobs]
    snapshot = _barred(jobs, 3, 1, 3)
    config = SchedulerConfig(
        policy=POLICIES["srtf"](),
        locality=LOCALITIES["any"](),
        mechanism=MECHANISMS["proportional"](),
        introspection=(INTROSPECTIONS[introspection](),),
    )

    plan_round(snapshot, config)


def test_plan_that_brings_a_job_to_a_barred_server_is_refused() -> None:
    """The check knows the rule by itself."""
    snapshot = _barred([_job(2)], 1)
    plan = _plan(snapshot)

    with pytest.raises(PlanInvariantError, match="it may not use"):
        check(plan, replace(snapshot, barred=((STRICT, 1),)))


def test_queues_and_servers_that_are_gone_are_forgotten() -> None:
    """The plan is the one without them."""
    snapshot = _barred([_job(2)], 1)
    other = replace(snapshot, barred=((STRICT, 99), (99, 1)))

    assert _plan(snapshot).plan_hash == _plan(other).plan_hash
