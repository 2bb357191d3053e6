"""AFS-P: slices in turn, and pairs that need no lengths."""

from dataclasses import replace

import numpy as np
import pytest

from scheduler.core.model.profile import Profile
from scheduler.policies.afs_p import AfsP
from tests.support.simulator.elastic import elastic_job, holding
from tests.support.simulator.strategies import ServerRow, snapshot_of

STEEP = Profile(scaling=((1.0, 1.0), (2.0, 1.8)))
FLAT = Profile(scaling=((1.0, 1.0), (2.0, 1.4)))
MIDDLE = Profile(scaling=((1.0, 1.0), (2.0, 1.6)))


@pytest.mark.parametrize("attained", [(0.0, 9.0), (9.0, 0.0)])
@pytest.mark.parametrize("swapped", [False, True])
def test_a_decidable_pair_goes_by_efficiency_alone(attained: tuple[float, float], swapped: bool) -> None:
    """AFS example 2: 10 to 14 against 10 to 18 goes to the latter, whichever is shorter or first."""
    jobs = [elastic_job(work_s=100.0, max_gpus=2, profile=profile) for profile in (FLAT, STEEP)]
    jobs = [replace(job, attained_gpu_s=service) for job, service in zip(jobs, attained, strict=True)]
    if swapped:
        jobs.reverse()
    shares = AfsP().shares(snapshot_of(jobs, [ServerRow()]), 3).tolist()

    assert (shares[::-1] if swapped else shares) == [1, 2]


@pytest.mark.parametrize(("attained", "shares"), [((0.0, 9.0), [2, 1]), ((9.0, 0.0), [1, 2])])
def test_an_undecidable_pair_goes_to_the_one_with_less_service(
    attained: tuple[float, float], shares: list[int]
) -> None:
    """AFS example 2: 10 to 14 against 10 to 16 depends on lengths; the attained service stands for them."""
    jobs = [
        replace(elastic_job(work_s=100.0, max_gpus=2, profile=profile), attained_gpu_s=service)
        for profile, service in zip((FLAT, MIDDLE), attained, strict=True)
    ]

    assert AfsP().shares(snapshot_of(jobs, [ServerRow()]), 3).tolist() == shares


def test_an_undecidable_pair_may_be_drawn_by_seed() -> None:
    """With ``guess`` the same seed gives the same answer, and seeds give both answers."""
    snapshot = snapshot_of([elastic_job(work_s=1.0, max_gpus=2, profile=p) for p in (FLAT, MIDDLE)], [ServerRow()])
    answers = [tuple(AfsP(guess=True, seed=seed).shares(snapshot, 3).tolist()) for seed in range(16)]

    assert set(answers) == {(1, 2), (2, 1)}
    assert answers == [tuple(AfsP(guess=True, seed=seed).shares(snapshot, 3).tolist()) for seed in range(16)]


def test_jobs_take_turns_by_used_slices() -> None:
    """With more jobs than GPUs a slice goes to the job that used the fewest, first come first."""
    jobs = [
        replace(elastic_job(work_s=1.0, max_gpus=2, arrival_s=arrival), executed_s=executed)
        for arrival, executed in ((0.0, 14_400.0), (10.0, 0.0), (20.0, 7_200.0), (30.0, 100.0))
    ]

    assert AfsP().shares(snapshot_of(jobs, [ServerRow()]), 2).tolist() == [0, 1, 0, 1]


def test_a_share_is_held_until_its_slice_ends() -> None:
    """Short of GPUs a running job keeps its share inside a slice, and competes again when the slice is over."""
    rows = [elastic_job(work_s=1.0, max_gpus=2, arrival_s=float(number)) for number in range(3)]

    def shares(executed_s: float, *, round_s: float = 60.0) -> list[int]:
        jobs = [replace(rows[0], executed_s=executed_s), *rows[1:]]
        snapshot = replace(holding(snapshot_of(jobs, [ServerRow()]), [2, 0, 0]), round_s=round_s)
        return [int(share) for share in AfsP().shares(snapshot, 2)]

    assert shares(7_100.0) == [2, 0, 0]
    assert shares(7_200.0) == [0, 1, 1]
    assert shares(7_300.0) == [2, 0, 0]
    # Rounds come when they come: a slice ends in the first one after its end, and only there.
    for round_s in (10.0, 60.0, 300.0):
        assert shares(7_199.9, round_s=round_s) == shares(7_200.0 + round_s, round_s=round_s) == [2, 0, 0]
        assert shares(7_199.9 + round_s, round_s=round_s) == [0, 1, 1]


def test_nobody_starves() -> None:
    """Ten jobs on three GPUs: after twelve slices each had as many as any other, give or take one."""
    executed = np.zeros(10)
    for _ in range(12):
        jobs = [
            replace(elastic_job(work_s=1.0, max_gpus=4, arrival_s=float(number)), executed_s=float(time_s))
            for number, time_s in enumerate(executed)
        ]
        given = AfsP().shares(snapshot_of(jobs, [ServerRow()]), 3)
        executed[given > 0] += 7_200.0

    assert executed.max() - executed.min() <= 7_200.0


def test_shares_stay_until_a_slice_ends() -> None:
    """Attained service that crosses resizes no job; the end of a slice shares all GPUs out anew."""
    jobs = [elastic_job(work_s=100.0, max_gpus=2, profile=profile) for profile in (FLAT, MIDDLE)]

    def shares(executed_s: float) -> list[int]:
        rows = [replace(job, attained_gpu_s=9.0 - 9.0 * row, executed_s=executed_s) for row, job in enumerate(jobs)]
        found: list[int] = AfsP().shares(holding(snapshot_of(rows, [ServerRow()]), [2, 1]), 3).tolist()
        return found

    assert shares(100.0) == [2, 1]
    assert shares(7_200.0) == [1, 2]
