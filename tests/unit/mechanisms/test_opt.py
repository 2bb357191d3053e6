"""Opt of Synergy: its programs, its bound, and the plan that servers can give."""

from dataclasses import replace

import pytest

from scheduler.choices import build_config
from scheduler.core.model.plan import Plan
from scheduler.core.model.profile import Profile
from scheduler.core.round.plan_round import plan_round
from scheduler.mechanisms.opt import speed_bound
from scheduler.mechanisms.programs import JobClass, Point, best_division, efficient
from tests.support.simulator.strategies import JobRow, ServerRow, snapshot_of
from tests.support.simulator.synergy import PROFILES, job, speeds

EXAMPLE_A = ([job(name) for name in ("resnet18", "mobilenet", "gnmt", "lstm")], ServerRow(num_gpus=4, num_cpus=12))
EXAMPLE_B = ([job(name) for name in ["resnet18"] * 2 + ["gnmt"] * 3 + ["lstm"] * 3], ServerRow())
EXAMPLE_C = ([job(name, num_gpus=2) for name in ("resnet18", "m5", "gnmt", "lstm")], ServerRow())


def run(jobs: list[JobRow], servers: list[ServerRow], **options: object) -> tuple[Plan, float]:
    """Return a round in the order of the list, and the sum of its speeds."""
    config = build_config(policy="fifo", mechanism="opt", mechanism_options=options)
    plan = plan_round(snapshot_of(jobs, servers), config)
    return plan, sum(speeds(plan, jobs).values())


def bound(jobs: list[JobRow], servers: list[ServerRow], *, integral: bool = False) -> float | None:
    """Return the bound for all jobs together."""
    snapshot = snapshot_of(jobs, servers)
    return speed_bound(snapshot.jobs, snapshot.servers, range(len(jobs)), integral=integral)


@pytest.mark.parametrize(
    ("example", "fractional", "whole"),
    [(EXAMPLE_A, 5.05, 5.05), (EXAMPLE_B, 10.8, 10.8), (EXAMPLE_C, 5.53, 5.30)],
    ids=["A", "B", "C"],
)
def test_bounds_of_the_synergy_examples(
    example: tuple[list[JobRow], ServerRow], fractional: float, whole: float
) -> None:
    """Synergy examples A, B and C: the linear program and the program for whole jobs."""
    jobs, server = example
    server = replace(server, memory_bytes=250e9 if server.num_gpus == 4 else 500e9)

    assert bound(jobs, [server]) == pytest.approx(fractional, abs=0.005)
    assert bound(jobs, [server], integral=True) == pytest.approx(whole, abs=0.0005)
    assert run(jobs, [server])[1] == pytest.approx(whole, abs=0.0005)


def test_synergy_example_a_core_by_core() -> None:
    """ResNet18 gets 6 cores, MobileNet 4, GNMT and LSTM 1 each."""
    assert run(*_of(EXAMPLE_A))[0].grants.cpus.tolist() == [6, 4, 1, 1]


def test_synergy_example_c_cores_and_memory() -> None:
    """ResNet18 gets 8 cores and 125 GB, M5 12 cores and 250 GB."""
    grants = run(*_of(EXAMPLE_C))[0].grants

    assert grants.cpus.tolist()[:2] == [8, 12]
    assert grants.memory_bytes.tolist()[:2] == [125e9, 250e9]


def _of(example: tuple[list[JobRow], ServerRow]) -> tuple[list[JobRow], list[ServerRow]]:
    return example[0], [example[1]]


def test_a_rounded_mixture_is_never_below_the_share() -> None:
    """The mixture of example C leaves fractions of jobs over: they get their share and what is left is given out."""
    plan, total = run(*_of(EXAMPLE_C), integral=False)

    assert min(speeds(plan, EXAMPLE_C[0]).values()) >= 1
    assert total == pytest.approx(4.95)


def test_points_that_another_beats_are_left_out() -> None:
    """As fast with less of both, or faster with as much."""
    points = [
        Point(cpus=cpus, memory_bytes=memory, speed=speed)
        for cpus, memory, speed in [(1, 1, 1), (2, 1, 1), (1, 2, 1), (2, 2, 2), (3, 1, 2), (2, 2, 1.5), (2, 2, 2)]
    ]

    assert [(point.cpus, point.memory_bytes) for point in efficient(points)] == [(2, 2), (3, 1), (1, 1)]


def test_the_class_program_has_the_optimum_of_the_job_program() -> None:
    """Ten jobs as one class, as ten classes, and as two: the same sum of speeds."""
    points = efficient([Point(cpus=c, memory_bytes=1.0, speed=c**0.5) for c in (1.0, 3.0, 4.0, 9.0)])

    def best(*sizes: int) -> float:
        classes = [JobClass(num_jobs=size, num_gpus=1, least_speed=1.5, points=points) for size in sizes]
        division = best_division(classes, num_cpus=37, memory_bytes=10, integral=False, time_limit_s=10)
        assert division is not None
        return division.speed

    assert best(10) == pytest.approx(best(*[1] * 10)) == pytest.approx(best(3, 7))


def test_nobody_can_have_more_than_there_is() -> None:
    """Where not every job can have the least, there is no division; and the round divides as Tune does."""
    points = (Point(cpus=4.0, memory_bytes=1.0, speed=1.0),)
    jobs = JobClass(num_jobs=3, num_gpus=1, least_speed=1.0, points=points)

    assert best_division([jobs], num_cpus=11, memory_bytes=9, integral=False, time_limit_s=10) is None
    assert best_division([jobs], num_cpus=11, memory_bytes=9, integral=True, time_limit_s=10) is None
    unlike = [ServerRow(num_gpus=1, num_cpus=9), ServerRow(num_gpus=8, num_cpus=24)]
    plan, _ = run([job("resnet18")] * 9, unlike)
    assert plan.grants.cpus.sum() == pytest.approx(33)


def test_time_that_is_up_leaves_a_safe_plan() -> None:
    """With no time for the program all jobs still run, and none below the share."""
    jobs = EXAMPLE_C[0]
    plan, total = run(jobs, [EXAMPLE_C[1]], time_limit_s=0.001)

    assert set(speeds(plan, jobs)) == {0, 1, 2, 3}
    assert 4.0 <= total <= 5.31


def test_what_an_owner_insists_on_is_kept() -> None:
    """ResNet18 that insists on 8 cores has them, and the others their share or demand."""
    jobs = [job("resnet18", min_cpus=8), job("mobilenet"), job("gnmt"), job("lstm")]
    plan, _ = run(jobs, [ServerRow(num_gpus=4, num_cpus=13)])

    assert plan.grants.cpus[0] >= 8
    assert min(speeds(plan, jobs).values()) >= 1


def test_running_jobs_stay_and_change_their_cores() -> None:
    """Example A on a cluster where all four run already: they divide the cores anew, and none is moved."""
    jobs = [replace(row, seats=((0, 1),)) for row in EXAMPLE_A[0]]
    plan, _ = run(jobs, [EXAMPLE_A[1], EXAMPLE_A[1]])

    assert plan.kept == {0, 1, 2, 3}
    assert not plan.preemptions
    assert plan.grants.cpus.tolist() == [6, 4, 1, 1]


def test_jobs_of_which_nothing_is_known_get_their_share() -> None:
    """They count as speed 1 in the bound, and take part in the packing with their share."""
    jobs = [JobRow(num_gpus=2), job("resnet18"), JobRow()]
    plan, total = run(jobs, [ServerRow(num_gpus=4, num_cpus=12)])

    assert plan.grants.cpus.tolist() == [6, 3, 3]
    assert total == 3.0 == bound(jobs, [ServerRow(num_gpus=4, num_cpus=12)], integral=True)


def test_jobs_of_one_profile_that_can_use_other_amounts_are_not_one_class() -> None:
    """A job that can use a core gets it beside one of the same profile that can use half; a third takes the rest."""
    jobs = [JobRow(demand_cpus=cpus, profile=PROFILES["gnmt"]) for cpus in (0.5, 1.0)]
    insists = JobRow(demand_cpus=1.5, min_cpus=1.5)

    plan, _ = run([*jobs, insists], [ServerRow(num_gpus=3, num_cpus=3)])
    assert plan.grants.cpus.tolist() == pytest.approx([0.5, 1.0, 1.5])


def test_a_gang_on_several_servers_gets_what_it_can_use_on_the_richest() -> None:
    """Three GPUs that use 100 GiB each: 100 where one GPU has 256 GiB, though no server has 300."""
    linear = Profile(scaling=((1.0, 1.0), (8.0, 8.0)))
    rows = [JobRow(num_gpus=3, max_servers=2, demand_memory_bytes=300 * 2**30, profile=linear)]
    one = ServerRow(num_gpus=1, num_cpus=3, memory_bytes=256 * 2**30)
    fifo = [JobRow(num_gpus=2, demand_memory_bytes=1.0)]  # takes half of the large server
    grants = run(fifo + rows, [one, replace(one, num_gpus=4, num_cpus=12)])[0].grants

    assert grants.num_gpus.tolist() == [2, 1, 2]
    assert grants.memory_bytes.tolist()[1] == 100 * 2**30


def test_an_empty_cluster_and_an_empty_queue() -> None:
    """Nothing to divide."""
    assert len(run([], [ServerRow()])[0].grants) == 0
    assert bound([], [ServerRow()]) == 0


def test_ten_thousand_jobs_are_a_small_program() -> None:
    """Jobs of twelve models and four sizes are at most 48 classes, whatever their number: well under a second."""
    names = sorted(PROFILES)
    jobs = [job(names[row % 12], num_gpus=(1, 2, 4, 8)[row % 4]) for row in range(10_000)]
    snapshot = snapshot_of(jobs, [ServerRow()] * 5_000)

    assert speed_bound(snapshot.jobs, snapshot.servers, range(10_000), time_limit_s=1.0) is not None
    assert speed_bound(snapshot.jobs, snapshot.servers, range(10_000), integral=True, time_limit_s=1.0) is not None
