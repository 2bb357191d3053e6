"""Worked examples of Synergy: proportional and tune."""

import json
from pathlib import Path

import numpy as np
import pytest

from scheduler.choices import build_config
from scheduler.core.model.plan import Plan
from scheduler.core.model.profile import Profile, demand, parse_profile, sensitivity
from scheduler.core.model.tables import Snapshot
from scheduler.core.round.config import SchedulerConfig
from scheduler.core.round.plan_round import plan_round
from tests.support.simulator.strategies import JobRow, ServerRow, snapshot_of

PROFILES = {
    name: parse_profile(data)
    for name, data in json.loads(Path("fixtures/profiles/synergy.json").read_text(encoding="utf-8")).items()
}
TUNE = build_config(policy="fifo", mechanism="tune")
PROPORTIONAL = build_config(policy="fifo", mechanism="proportional")


def job(name: str, *, num_gpus: int = 1, seats: tuple[tuple[int, int], ...] = ()) -> JobRow:
    """Return a job of a known model with its demand."""
    wants = demand(PROFILES[name], num_gpus=num_gpus)
    return JobRow(num_gpus=num_gpus, demand_cpus=wants.cpus, demand_memory_bytes=wants.memory_bytes, seats=seats)


def speeds(snapshot: Snapshot, plan: Plan, profiles: list[Profile]) -> list[float]:
    """Return the speed of each granted job with the cores and memory it got."""
    grants = plan.grants
    return [
        sensitivity(profiles[row], cpus_per_gpu=cpus / gpus, memory_bytes_per_gpu=memory / gpus)
        for row, gpus, cpus, memory in zip(
            grants.job.tolist(),
            grants.num_gpus.tolist(),
            grants.cpus.tolist(),
            grants.memory_bytes.tolist(),
            strict=True,
        )
    ]


def _run(config: SchedulerConfig, names: list[str], server: ServerRow, *, num_gpus: int = 1) -> tuple[Plan, float]:
    snapshot = snapshot_of([job(name, num_gpus=num_gpus) for name in names], [server])
    plan = plan_round(snapshot, config)
    return plan, round(sum(speeds(snapshot, plan, [PROFILES[name] for name in names])), 6)


@pytest.mark.parametrize(
    ("name", "cpus", "gigabytes"),
    [
        ("alexnet", 12, 125),
        ("shufflenet", 12, 125),
        ("resnet18", 9, 62.5),
        ("mobilenet", 6, 62.5),
        ("resnet50", 4, 62.5),
        ("m5", 6, 187.5),
        ("deepspeech", 3, 62.5),
        ("gnmt", 1, 20.83),
        ("lstm", 1, 20.83),
    ],
)
def test_the_demand_vector_is_the_least_at_full_speed(name: str, cpus: float, gigabytes: float) -> None:
    """Synergy: best cores and memory per GPU of the published profiles; a gang needs them once a GPU."""
    one, four = demand(PROFILES[name], num_gpus=1), demand(PROFILES[name], num_gpus=4)

    assert (one.cpus, one.memory_bytes / 1e9) == (cpus, gigabytes)
    assert (four.cpus, four.memory_bytes) == (4 * one.cpus, 4 * one.memory_bytes)


EXAMPLE_A = ["resnet18", "mobilenet", "gnmt", "lstm"]
SERVER_A = ServerRow(num_gpus=4, num_cpus=12, memory_bytes=250e9)


def test_example_a_proportional() -> None:
    """Synergy: four jobs at their share run at speed 4.00."""
    plan, total = _run(PROPORTIONAL, EXAMPLE_A, SERVER_A)

    assert total == 4.0
    assert plan.grants.cpus.tolist() == [3, 3, 3, 3]


def test_example_a_tune_demotes_and_leaves_cores_idle() -> None:
    """Synergy: ResNet18 and MobileNet are demoted to 3 cores, 4 cores stay idle, total 4.00."""
    plan, total = _run(TUNE, EXAMPLE_A, SERVER_A)

    assert total == 4.0
    assert plan.grants.cpus.tolist() == [3, 3, 1, 1]


@pytest.mark.parametrize(("config", "total"), [(PROPORTIONAL, 8.0), (TUNE, 10.8)], ids=["proportional", "tune"])
def test_example_b_everybody_at_full_speed(config: SchedulerConfig, total: float) -> None:
    """Synergy: 2 ResNet18, 3 GNMT, 3 LSTM on one server demand exactly its 24 cores."""
    assert _run(config, ["resnet18"] * 2 + ["gnmt"] * 3 + ["lstm"] * 3, ServerRow())[1] == total


@pytest.mark.parametrize("config", [PROPORTIONAL, TUNE], ids=["proportional", "tune"])
def test_example_c_memory(config: SchedulerConfig) -> None:
    """Synergy: 2-GPU jobs ResNet18, M5, GNMT, LSTM: both mechanisms end at speed 4.00."""
    assert _run(config, ["resnet18", "m5", "gnmt", "lstm"], ServerRow(), num_gpus=2)[1] == 4.0


def test_demanding_jobs_are_spread_over_servers() -> None:
    """A demand that does not fit beside another goes to another server, not to the best fit by GPUs."""
    snapshot = snapshot_of([job("resnet18")] * 4, [ServerRow()] * 2)

    assert sorted(plan_round(snapshot, TUNE).grants.server.tolist()) == [0, 0, 1, 1]
    assert plan_round(snapshot, PROPORTIONAL).grants.server.tolist() == [0, 0, 0, 0]


def test_the_most_demanding_job_is_placed_first_unless_told_otherwise() -> None:
    """sort_by_demand gives the cores to the job that wants most; without it the first in the order has them."""
    snapshot = snapshot_of([job("mobilenet"), job("resnet18")], [ServerRow(num_gpus=4, num_cpus=12)])
    in_order = build_config(policy="fifo", mechanism="tune", mechanism_options={"sort_by_demand": False})

    assert plan_round(snapshot, TUNE).grants.cpus.tolist() == [3, 9]
    assert plan_round(snapshot, in_order).grants.cpus.tolist() == [6, 3]


def test_a_running_job_stays_and_gives_cores_back() -> None:
    """A job that keeps its server is demoted to its share when a newcomer needs its own."""
    running = [job("resnet18", seats=((0, 1),)), job("resnet18", seats=((0, 1),))]
    snapshot = snapshot_of([*running, job("resnet18"), job("resnet18")], [ServerRow(num_gpus=4, num_cpus=18)])

    plan = plan_round(snapshot, TUNE)

    assert plan.kept == {0, 1}
    assert sorted(plan.grants.cpus.tolist()) == [4.5, 4.5, 4.5, 4.5]


def test_numbers_that_the_user_gave_are_never_taken_back() -> None:
    """A job that insists on 8 cores keeps them; its neighbour gets what is left, at least its share or demand."""
    snapshot = snapshot_of(
        [JobRow(min_cpus=8, demand_cpus=8), job("resnet18"), job("gnmt")], [ServerRow(num_gpus=4, num_cpus=12)]
    )

    plan = plan_round(snapshot, TUNE)

    assert plan.grants.cpus.tolist() == [8, 3, 1]


def test_no_random_set_ever_falls_below_its_share() -> None:
    """Synergy: whatever fits by GPUs is placed by tune, and no job runs slower than at its share."""
    rng = np.random.default_rng(7)
    names = sorted(PROFILES)
    for _ in range(30):
        chosen = [names[i] for i in rng.integers(0, len(names), 40)]
        jobs = [
            job(name, num_gpus=int(gpus)) for name, gpus in zip(chosen, rng.choice([1, 1, 2, 4, 8], 40), strict=True)
        ]
        snapshot = snapshot_of(jobs, [ServerRow()] * 6)
        plan = plan_round(snapshot, TUNE)

        ran = set(plan.grants.job.tolist())
        assert ran == set(plan_round(snapshot, PROPORTIONAL).grants.job.tolist())
        at_share = [min(1.0, max(map(max, PROFILES[name].relative_speed))) for name in chosen]
        got = speeds(snapshot, plan, [PROFILES[name] for name in chosen])
        assert all(speed >= at_share[row] - 1e-9 for row, speed in zip(plan.grants.job.tolist(), got, strict=True))
