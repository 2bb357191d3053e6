"""Completion times and fairness."""

import pytest

from scheduler.core.model.profile import Profile
from scheduler.core.operations.metrics import isolated_time_s, jain_index, percentile


@pytest.mark.parametrize(("p", "value"), [(0.01, 1), (0.5, 50), (0.505, 51), (0.99, 99), (1.0, 100), (0.07, 7)])
def test_a_percentile_is_the_value_at_its_rank(p: float, value: float) -> None:
    """Rank ceil(p n), without interpolation, exact also where p n is not."""
    assert percentile(list(range(1, 101)), p) == value


def test_jain_index() -> None:
    """1 when all are equal, 1/n when one has everything."""
    assert jain_index([3, 3, 3]) == pytest.approx(1)
    assert jain_index([9, 0, 0]) == pytest.approx(1 / 3)
    assert jain_index([0, 0]) == 1


def test_an_elastic_job_alone_uses_its_share_by_its_own_curve() -> None:
    """With a share of 4 GPUs a job stated for 2 runs 1.5 times as fast on them by its curve, twice without one."""
    half = Profile(scaling=((1.0, 1.0), (2.0, 2.0), (4.0, 3.0)))

    def alone(sharers: float, profile: Profile | None = half, max_gpus: int = 4) -> float:
        return isolated_time_s(
            run_s=120, num_gpus=2, cluster_gpus=8, sharers=sharers, min_gpus=1, max_gpus=max_gpus, profile=profile
        )

    assert (alone(2), alone(2, None)) == (80, 60)
    assert alone(1, max_gpus=3) == 120 * 2 / 2.5, "it cannot use more than 3 GPUs"
    assert alone(16) == 480, "half a GPU for 240 s of work on one"


def test_isolated_time_of_a_job_as_wide_as_half_the_cluster() -> None:
    """Four jobs share 8 GPUs, so a job of 4 GPUs takes twice its time on a share of 2."""
    assert isolated_time_s(run_s=100, num_gpus=4, cluster_gpus=8, sharers=4) == 200
