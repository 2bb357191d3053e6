"""Greedy of Synergy: the demand or nothing."""

import json
from pathlib import Path

import pytest

from scheduler.choices import build_config
from scheduler.core.model.plan import Plan, WaitReason
from scheduler.core.model.profile import demand, parse_profile, sensitivity
from scheduler.core.round.plan_round import plan_round
from tests.support.simulator.strategies import JobRow, ServerRow, snapshot_of

PROFILES = {
    name: parse_profile(data)
    for name, data in json.loads(Path("fixtures/profiles/synergy.json").read_text(encoding="utf-8")).items()
}


def job(name: str, *, num_gpus: int = 1, max_servers: int = 1) -> JobRow:
    """Return a job of a known model with its demand."""
    wants = demand(PROFILES[name], num_gpus=num_gpus)
    return JobRow(
        num_gpus=num_gpus, max_servers=max_servers, demand_cpus=wants.cpus, demand_memory_bytes=wants.memory_bytes
    )


def run(jobs: list[JobRow], servers: list[ServerRow], mechanism: str = "greedy") -> Plan:
    """Return a round in the order of the list."""
    return plan_round(snapshot_of(jobs, servers), build_config(policy="fifo", mechanism=mechanism))


def test_synergy_example_a() -> None:
    """ResNet18 takes 9 cores, MobileNet (6 > 3 left) is skipped, GNMT and LSTM run: 4.40, and one GPU idles."""
    names = ["resnet18", "mobilenet", "gnmt", "lstm"]

    plan = run([job(name) for name in names], [ServerRow(num_gpus=4, num_cpus=12, memory_bytes=250e9)])

    grants = plan.grants
    total = sum(
        sensitivity(PROFILES[names[row]], cpus_per_gpu=cpus, memory_bytes_per_gpu=memory)
        for row, cpus, memory in zip(
            grants.job.tolist(), grants.cpus.tolist(), grants.memory_bytes.tolist(), strict=True
        )
    )
    assert total == pytest.approx(4.40)
    assert grants.cpus.tolist() == [9, 1, 1]
    assert [(entry.job, entry.reason) for entry in plan.waiting] == [(1, WaitReason.CPU_OR_MEMORY)]


def test_only_image_jobs_leave_most_gpus_idle() -> None:
    """DRF and Tetris example 4: nine cores each, two of eight start; with tune all eight GPUs are busy."""
    jobs = [job("resnet18")] * 8

    assert len(run(jobs, [ServerRow()]).grants) == 2
    assert len(run(jobs, [ServerRow()], "tune").grants) == 8


def test_the_demands_of_two_classes_fill_a_server() -> None:
    """DRF and Tetris example 3: two image and six language jobs take all 8 GPUs and all 24 cores."""
    plan = run([job("resnet18")] * 2 + [job("gnmt")] * 6, [ServerRow()])

    assert (plan.grants.num_gpus.sum(), plan.grants.cpus.sum()) == (8, 24)


def test_a_demand_beyond_a_server_counts_as_that_of_a_server() -> None:
    """Four GPUs of AlexNet want 48 cores and 500 GB; a server has 24 and 500, so it runs alone there."""
    plan = run([job("alexnet", num_gpus=4), job("gnmt")], [ServerRow()])

    assert plan.grants.job.tolist() == [0]
    assert (plan.grants.cpus[0], plan.grants.memory_bytes[0]) == (24, 500e9)


def test_the_server_with_the_most_cores_bounds_a_demand() -> None:
    """Among unlike servers with enough GPUs the one with the most cores counts, so some server always can hold it."""
    small, large = ServerRow(num_gpus=4, num_cpus=12), ServerRow(num_gpus=4, num_cpus=40, memory_bytes=100e9)
    roomy_but_narrow = ServerRow(num_gpus=2, num_cpus=99)

    plan = run([job("alexnet", num_gpus=4)], [small, large, roomy_but_narrow])

    assert plan.grants.server.tolist() == [1]
    assert (plan.grants.cpus[0], plan.grants.memory_bytes[0]) == (40, 100e9)


def test_a_gang_wider_than_a_server_gets_its_share() -> None:
    """Sixteen GPUs of ResNet18 get two whole servers instead of 144 cores."""
    plan = run([job("resnet18", num_gpus=16, max_servers=0)], [ServerRow()] * 2)

    assert plan.grants.cpus.tolist() == [24, 24]


def test_a_split_gang_splits_its_demand_like_its_gpus() -> None:
    """Six GPUs on servers with four and two free ones: cores go with them, four to two."""
    blockers = [JobRow(num_gpus=gpus, seats=((row, gpus),), demand_cpus=1) for row, gpus in enumerate((4, 6))]
    gang = JobRow(num_gpus=6, max_servers=0, demand_cpus=24, demand_memory_bytes=60e9)

    plan = run([*blockers, gang], [ServerRow()] * 2)

    mine = plan.grants.job == 2
    assert plan.grants.num_gpus[mine].tolist() == [4, 2]
    assert plan.grants.cpus[mine].tolist() == [16, 8]


def test_unknown_demands_are_shares() -> None:
    """Nothing known: the proportional share, as under every mechanism."""
    assert run([JobRow(num_gpus=2)], [ServerRow()]).grants.cpus.tolist() == [6]
