"""What Tune leaves unused goes to the jobs that gain most, when the option is on."""

import numpy as np
import pytest

from scheduler.choices import build_config
from scheduler.core.model.cpu_memory_bounds import needs_of
from scheduler.core.model.plan import Plan
from scheduler.core.model.profile import Profile
from scheduler.core.model.tables import Placements
from scheduler.core.packing.draft import Draft
from scheduler.core.round.plan_round import plan_round
from scheduler.mechanisms.top_up import top_up
from tests.support.simulator.strategies import JobRow, ServerRow, snapshot_of
from tests.support.simulator.synergy import job, speeds


def run(jobs: list[JobRow], server: ServerRow, *servers: ServerRow) -> Plan:
    """Return a round of Tune with top-up."""
    config = build_config(policy="fifo", mechanism="tune", mechanism_options={"top_up": True})
    return plan_round(snapshot_of(jobs, [server, *servers]), config)


EXAMPLE_A = [job(name) for name in ("resnet18", "mobilenet", "gnmt", "lstm")]


def test_synergy_example_a() -> None:
    """ResNet18 ends with 6 cores, MobileNet with 4: total speed 5.05."""
    plan = run(EXAMPLE_A, ServerRow(num_gpus=4, num_cpus=12, memory_bytes=250e9))

    assert plan.grants.cpus.tolist() == [6, 4, 1, 1]
    assert sum(speeds(plan, EXAMPLE_A).values()) == pytest.approx(5.05)


@pytest.mark.parametrize(
    ("num_cpus", "cores"), [(8, [3, 3]), (9, [4, 3]), (10, [4, 4]), (11, [5, 4]), (12, [6, 4]), (13, [6, 5])]
)
def test_synergy_example_a_step_by_step(num_cpus: float, cores: list[float]) -> None:
    """From what Tune leaves, 3, 3, 1 and 1 cores, the steps are R4, M4, R5, R6 as far as there are cores."""
    snapshot = snapshot_of(EXAMPLE_A, [ServerRow(num_gpus=4, num_cpus=num_cpus, memory_bytes=250e9)])
    draft = Draft(
        jobs=snapshot.jobs,
        servers=snapshot.servers,
        needs=needs_of(snapshot.jobs, snapshot.servers, trims=True, insists=False),
        seats=dict.fromkeys(range(4), ((0, 1),)),
        movable=frozenset(),
        room=(0,),
    )
    before = Placements(
        job=np.arange(4),
        server=np.zeros(4, dtype=np.int64),
        num_gpus=np.ones(4, dtype=np.int64),
        cpus=np.array([3.0, 3.0, 1.0, 1.0]),
        memory_bytes=np.full(4, 62.5e9),
    )

    assert top_up(before, draft).cpus.tolist() == [*cores, 1, 1]


def test_it_is_off_by_default() -> None:
    """The paper leaves spare cores idle, and so does Tune."""
    jobs = [job(name) for name in ("resnet18", "mobilenet", "gnmt", "lstm")]
    snapshot = snapshot_of(jobs, [ServerRow(num_gpus=4, num_cpus=12)])

    assert plan_round(snapshot, build_config(policy="fifo", mechanism="tune")).grants.cpus.tolist() == [3, 3, 1, 1]


def test_a_step_may_be_memory() -> None:
    """Both hungry jobs were held to their 50 GB; the first gets the next 50 GB, for the second 30 GB are too little."""
    profile = Profile(cpus_per_gpu=(3.0,), memory_bytes_per_gpu=(50e9, 100e9, 150e9), relative_speed=((1.0, 1.5, 1.8),))
    hungry = JobRow(demand_cpus=3, demand_memory_bytes=150e9, profile=profile)
    modest = JobRow(demand_cpus=1, demand_memory_bytes=10e9)
    plan = run([hungry, hungry, modest, modest], ServerRow(num_gpus=4, num_cpus=12, memory_bytes=200e9))

    assert plan.grants.memory_bytes.tolist() == [100e9, 50e9, 10e9, 10e9]


def test_flat_steps_are_jumped_over() -> None:
    """Speed that grows only two grid points ahead is worth the way, when all of the way is free."""
    profile = Profile(
        cpus_per_gpu=(3.0, 4.0, 5.0), memory_bytes_per_gpu=(1.0,), relative_speed=((1.0,), (1.0,), (2.0,))
    )
    one = JobRow(demand_cpus=3, demand_memory_bytes=1.0, profile=profile)

    assert run([one, one], ServerRow(num_gpus=2, num_cpus=8)).grants.cpus.tolist() == [5, 3]
    assert run([one, one], ServerRow(num_gpus=2, num_cpus=7)).grants.cpus.tolist() == [3, 3]


def test_a_split_gang_steps_on_all_its_servers() -> None:
    """It runs as its slowest part, so cores on one of its servers alone are not worth having."""
    gang = job("resnet18", num_gpus=4, max_servers=2, seats=((0, 2), (1, 2)))
    full = JobRow(num_gpus=2, seats=((0, 2),))
    modest = job("gnmt", num_gpus=2, seats=((1, 2),))
    servers = [ServerRow(num_gpus=4, num_cpus=12)] * 2

    one_sided, both = run([gang, full, modest], *servers), run([gang, modest], *servers)

    assert one_sided.grants.cpus[one_sided.grants.job == 0].tolist() == [6, 6]
    assert both.grants.cpus[both.grants.job == 0].tolist() == [10, 10]


def test_jobs_without_a_profile_get_nothing_more() -> None:
    """It is not known whether it would help them."""
    assert run([JobRow(), JobRow()], ServerRow()).grants.cpus.tolist() == [3, 3]
