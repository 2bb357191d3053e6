"""Dominant resource fairness as an order of whole gangs, by job and by user."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.choices import build_config
from scheduler.core.round.config import SchedulerConfig
from scheduler.core.round.plan_round import plan_round
from scheduler.policies.drf import Drf
from tests.support.simulator.strategies import JobRow, ServerRow, snapshot_of

GB = 1e9


def _task(owner: int, cpus: float, memory: float, *, arrival_s: float = 0.0, weight: float = 1.0) -> JobRow:
    return JobRow(
        owner=owner, demand_cpus=cpus, demand_memory_bytes=memory, arrival_s=arrival_s, weight=weight, remaining_s=60.0
    )


def config(mechanism: str, **options: object) -> SchedulerConfig:
    """Return DRF with a mechanism."""
    return build_config(policy="drf", policy_options=options, mechanism=mechanism)


def owners_served(rows: list[JobRow], server: ServerRow, mechanism: str = "greedy") -> list[int]:
    """Return the owners of the jobs that start, in the order in which the policy takes them."""
    plan = plan_round(snapshot_of(rows, [server]), config(mechanism))
    runs = {*plan.grants.job.tolist()}
    return [rows[row].owner for row in plan.order if row in runs]


def test_the_classic_sequence() -> None:
    """9 cores and 18 GB: A (1, 4) and B (3, 1) get A, B, A, B, A, then the cores are used up."""
    rows = [_task(0, 1, 4) for _ in range(5)] + [_task(1, 3, 1) for _ in range(5)]

    assert owners_served(rows, ServerRow(num_gpus=18, num_cpus=9, memory_bytes=18)) == [0, 1, 0, 1, 0]


def test_a_hundred_cores() -> None:
    """100 cores, 10,000 GB: A (2, 300) runs 20 tasks, B (6, 100) 10."""
    rows = [_task(0, 2, 300) for _ in range(40)] + [_task(1, 6, 100) for _ in range(40)]
    served = owners_served(rows, ServerRow(num_gpus=100, num_cpus=100, memory_bytes=10_000))

    assert (served.count(0), served.count(1)) == (20, 10)


def test_a_gpu_server_of_image_and_language_jobs() -> None:
    """Server of 8 GPUs: 2 image jobs of 9 cores and 6 language jobs of 1, as Synergy-Tune packs them."""
    rows = [_task(0, 9, 62.5 * GB) for _ in range(6)] + [_task(1, 1, 20.83 * GB) for _ in range(8)]
    served = owners_served(rows, ServerRow())

    assert (served.count(0), served.count(1)) == (2, 6)


def test_hard_demands_starve_gpus_and_tune_does_not() -> None:
    """Only image jobs: 2 of 8 GPUs under DRF, all 8 with Tune below the same order."""
    rows = [_task(0, 9, 62.5 * GB) for _ in range(8)]

    assert len(owners_served(rows, ServerRow())) == 2
    assert len(owners_served(rows, ServerRow(), "tune")) == 8


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from([1, 3, 6, 9, 12])), max_size=20), st.integers(1, 3))
def test_tune_on_top_never_runs_fewer_gpus(jobs: list[tuple[int, int]], servers: int) -> None:
    """For the same order of 1-GPU jobs."""
    snapshot = snapshot_of([_task(owner, cpus, 62.5 * GB) for owner, cpus in jobs], [ServerRow()] * servers)
    gpus = [plan_round(snapshot, config(mechanism)).grants.num_gpus.sum() for mechanism in ("greedy", "tune")]

    assert gpus[0] <= gpus[1]


def test_weights_give_twice_as_many_tasks() -> None:
    """Weights 2 and 1, same demands, 9 places."""
    rows = [_task(0, 1, 1, weight=2.0) for _ in range(9)] + [_task(1, 1, 1) for _ in range(9)]
    served = owners_served(rows, ServerRow(num_gpus=9, num_cpus=9, memory_bytes=9))

    assert (served.count(0), served.count(1)) == (6, 3)


def test_by_user_what_runs_counts_and_nobody_is_stopped() -> None:
    """User 0 holds 6 of 8 GPUs: the next 2 go to user 1, oldest job first, and none of user 0 has to leave."""
    rows = [JobRow(num_gpus=6, owner=0, seats=((0, 6),)), JobRow(owner=0, arrival_s=1)]
    rows += [JobRow(owner=1, arrival_s=9), JobRow(owner=1, arrival_s=8), JobRow(owner=1, arrival_s=7)]
    plan = plan_round(snapshot_of(rows, [ServerRow()]), config("proportional"))

    assert sorted({*plan.grants.job.tolist()}) == [0, 3, 4]
    assert not plan.preemptions


def test_by_job_never_looks_at_what_a_user_holds() -> None:
    """The baseline orders by the share that the whole job asks for and may stop larger ones."""
    rows = [JobRow(num_gpus=8, owner=0, seats=((0, 8),)), JobRow(num_gpus=1, owner=1, demand_cpus=12.0)]
    rows += [JobRow(num_gpus=2, owner=2, demand_cpus=2.0)]
    policy, snapshot = Drf(by="job"), snapshot_of(rows, [ServerRow()])

    assert policy.priority(snapshot).tolist() == [1.0, 0.5, 0.25]
    assert policy.preemptive
    assert sorted({*plan_round(snapshot, config("proportional", by="job")).grants.job.tolist()}) == [1, 2]


def test_credit_remembers_who_had_the_gpus() -> None:
    """Two users take turns on one GPU without credit; with it the one that ran lately waits."""
    rows = [JobRow(owner=0, executed_s=600.0, waited_s=0.0, seats=((0, 1),)), JobRow(owner=1, waited_s=600.0)]
    snapshot = snapshot_of(rows, [ServerRow(num_gpus=1)])
    keys = Drf(credit_s=600.0).priority(snapshot)

    assert keys.tolist() == pytest.approx([1 - np.exp(-1), 0.0])
    assert sorted({*plan_round(snapshot, config("proportional", credit_s=600)).grants.job.tolist()}) == [1]
    assert sorted({*plan_round(snapshot, config("proportional")).grants.job.tolist()}) == [0]


def test_credit_fades() -> None:
    """600 s of use weigh exp(-1) as much after 600 s of waiting; keys change by themselves only then."""
    waits = JobRow(owner=0, executed_s=600.0, waited_s=600.0)
    snapshot = snapshot_of([waits, JobRow(owner=1)], [ServerRow(num_gpus=1)])
    policy = Drf(credit_s=600.0)

    assert policy.priority(snapshot)[0] == pytest.approx((1 - np.exp(-1)) * np.exp(-1))
    assert policy.next_change_s(snapshot.jobs).tolist() == [1, 1]
    assert np.isinf(Drf().next_change_s(snapshot.jobs)).all()
