"""AFS-L and the policies it is compared with, on the examples of the paper's model."""

import numpy as np
import pytest

from scheduler.core.model.profile import scaling
from scheduler.core.round.config import SharePolicy
from scheduler.policies.afs_l import AfsL
from scheduler.policies.maxmin import Maxmin
from scheduler.policies.optimus import Optimus
from scheduler.policies.srtf import Srtf
from tests.support.simulator.elastic import afs_profile, completions_s, elastic_job, holding
from tests.support.simulator.strategies import JobRow, ServerRow, snapshot_of

MODELS = {"bert-64": 1.0, "resnet50-256": 2.0, "vgg16-256": 4.0}  # hours of work on one GPU

SECOND = 1 / 60  # in minutes; the reference figures are exact to about that


def three_jobs() -> list[JobRow]:
    """Return the jobs of AFS example 3."""
    return [
        elastic_job(work_s=3_600 * hours, max_gpus=8, profile=afs_profile(model)) for model, hours in MODELS.items()
    ]


@pytest.mark.parametrize(
    ("policy", "shares"), [(AfsL(), [2, 3, 3]), (Optimus(), [1, 3, 4]), (Maxmin(), [3, 3, 2])], ids=lambda p: str(p)[:8]
)
def test_first_shares_of_three_measured_models(policy: SharePolicy, shares: list[int]) -> None:
    """AFS example 3, 8 GPUs: the first shares of AFS-L, Optimus and max-min."""
    assert policy.shares(snapshot_of(three_jobs(), [ServerRow()]), 8).tolist() == shares


@pytest.mark.parametrize(
    ("policy", "minutes", "average"),
    [
        (AfsL(), [41.86, 45.00, 63.85], 50.24),
        (Maxmin(), [38.09, 44.17, 68.05], 50.10),
        (Optimus(), [55.74, 45.90, 60.75], 54.13),
    ],
    ids=["afs-l", "maxmin", "optimus"],
)
def test_completions_of_three_measured_models(policy: SharePolicy, minutes: list[float], average: float) -> None:
    """AFS example 3 to the end: completion times in minutes."""
    done = np.array(completions_s(policy, three_jobs(), 8)) / 60

    assert done.tolist() == pytest.approx(minutes, abs=SECOND)
    assert float(done.mean()) == pytest.approx(average, abs=SECOND)


def test_completions_of_whole_gangs_by_shortest_remaining_time() -> None:
    """AFS example 3 with SRTF and gangs of 8 GPUs: 54.03, 21.31 and 93.46 minutes."""
    run_s = [3_600 * hours / scaling(afs_profile(model), 8) for model, hours in MODELS.items()]
    jobs = [JobRow(num_gpus=8, remaining_s=time_s) for time_s in run_s]
    order = np.argsort(Srtf().priority(snapshot_of(jobs, [ServerRow()])))
    minutes = np.empty(3)
    minutes[order] = np.cumsum(np.array(run_s)[order]) / 60

    assert minutes.tolist() == pytest.approx([54.03, 21.31, 93.46], abs=SECOND)
    assert float(minutes.mean()) == pytest.approx(56.27, abs=SECOND)


def test_more_jobs_than_gpus_get_one_each_shortest_first() -> None:
    """AFS example 4: 50, 20 and 90 s on one GPU and two GPUs."""
    jobs = [elastic_job(work_s=work_s, max_gpus=4) for work_s in (50.0, 20.0, 90.0)]

    assert AfsL().shares(snapshot_of(jobs, [ServerRow()]), 2).tolist() == [1, 1, 0]


def test_rigid_jobs_get_all_or_nothing_beside_elastic_ones() -> None:
    """A rigid gang counts as nothing or all it asks for; what it leaves goes to the elastic job."""
    rigid = JobRow(num_gpus=4, remaining_s=100.0)
    elastic = elastic_job(work_s=1_000.0, max_gpus=8)

    assert AfsL().shares(snapshot_of([rigid, elastic], [ServerRow()]), 8).tolist() == [4, 4]
    assert AfsL().shares(snapshot_of([rigid, elastic], [ServerRow()]), 4).tolist() == [4, 0]
    assert AfsL().shares(snapshot_of([rigid, elastic], [ServerRow()]), 3).tolist() == [0, 3]


def test_no_gpu_is_given_beyond_the_peak() -> None:
    """A job whose speed falls beyond 8 GPUs stops there although more are free."""
    job = elastic_job(work_s=3_600.0, max_gpus=32, profile=afs_profile("bert-64"))

    assert AfsL().shares(snapshot_of([job], [ServerRow(num_gpus=32)]), 32).tolist() == [8]


def _held(gpus: list[int], *, left_s: tuple[float, float]) -> list[int]:
    """Return the shares of 3 GPUs of two jobs that hold so many, when so much is left of them."""
    jobs = [elastic_job(work_s=work_s, max_gpus=8, profile=afs_profile("vgg16-256")) for work_s in left_s]
    shares: list[int] = AfsL().shares(holding(snapshot_of(jobs, [ServerRow()]), gpus), 3).tolist()
    return shares


def test_shares_stay_until_a_job_arrives_or_ends() -> None:
    """Another job is the shorter one, but none came or went, so nothing is resized; any free GPU is shared out anew."""
    first, crossed = (_held([0, 0], left_s=left_s) for left_s in ((1_000.0, 2_000.0), (2_000.0, 1_000.0)))

    assert (first, crossed) == ([2, 1], [1, 2])
    assert _held(first, left_s=(2_000.0, 1_000.0)) == first
    assert _held([first[0], 0], left_s=(2_000.0, 1_000.0)) == crossed
    assert _held([1, 1], left_s=(2_000.0, 1_000.0)) == crossed


def test_shares_are_decided_anew_when_gpus_are_lost() -> None:
    """Two jobs hold more than there is: both shrink."""
    assert _held([2, 2], left_s=(1_000.0, 2_000.0)) == [2, 1]
