"""The model of a profile: cores measured, memory from the size of a dataset and the rates of storage."""

import math

import pytest

from scheduler.core.model.profile import demand, sensitivity
from scheduler.core.performance.cache_model import Storage
from scheduler.core.performance.optimistic import Reading, Share, modelled, not_below, rate_at, settled

GB = 1e9
SHARE = Share(cpus=3.0, memory_bytes=62.5 * GB)
# ResNet18-like: 146 GB, 10 GB/s from memory, 0.5 GB/s from storage, an epoch of 200 s with its cores.
IMAGES = Reading(
    bytes_per_step=146 * GB / 2_000,
    dataset_bytes=146 * GB,
    storage=Storage(memory_bytes_per_s=10 * GB, disk_bytes_per_s=0.5 * GB),
)


def test_rates_between_measured_counts_lie_on_the_line() -> None:
    """Below the least count in proportion, above the most flat."""
    rates = {2.0: 10.0, 4.0: 30.0}

    assert [rate_at(rates, cpus) for cpus in (1.0, 2.0, 3.0, 4.0, 9.0)] == [5.0, 10.0, 20.0, 30.0, 30.0]


def test_noise_gives_nobody_cores() -> None:
    """3 % is flat, and more cores are never slower."""
    assert settled({1.0: 5.0, 2.0: 9.8, 4.0: 9.9, 8.0: 10.0}) == {1.0: 5.0, 2.0: 10.0, 4.0: 10.0, 8.0: 10.0}
    assert settled({1.0: 5.0, 2.0: 4.0, 4.0: 10.0}) == {1.0: 5.0, 2.0: 5.0, 4.0: 10.0}


def test_demand_is_the_least_at_full_speed() -> None:
    """Cores where the curve is flat from, memory where storage no longer holds the job up: 48.42 GB of cache."""
    profile = modelled(
        rates={1.0: 3.7, 3.0: 8.0, 9.0: 10.0, 24.0: 10.0}, working_bytes=20 * GB, reading=IMAGES, share=SHARE
    )
    best = demand(profile, num_gpus=1)

    assert best.cpus == 9.0
    assert best.memory_bytes / GB == pytest.approx(20 + 48.42, abs=0.01)
    assert sensitivity(profile, cpus_per_gpu=3.0, memory_bytes_per_gpu=62.5 * GB) == pytest.approx(1.0, abs=1e-3)


def test_speed_without_cache_is_that_of_storage() -> None:
    """292 s an epoch without any cache against 200 s of work: 0.685."""
    profile = modelled(
        rates={9.0: 10.0}, working_bytes=1.0, reading=IMAGES, share=Share(cpus=9.0, memory_bytes=200 * GB)
    )

    assert sensitivity(profile, cpus_per_gpu=9.0, memory_bytes_per_gpu=1.0) == pytest.approx(200 / 292, abs=1e-3)


def test_without_a_dataset_memory_does_nothing() -> None:
    """One column: what it works in."""
    profile = modelled(
        rates={1.0: 4.0, 2.0: 6.0}, working_bytes=2 * GB, reading=None, share=Share(cpus=2.0, memory_bytes=8 * GB)
    )

    assert profile.memory_bytes_per_gpu == (2 * GB,)
    assert [row[0] for row in profile.relative_speed] == [pytest.approx(2 / 3, abs=1e-4), 1.0]


def test_until_a_job_has_ended_none_gets_less_memory_than_its_share() -> None:
    """What was seen of the first minutes is not yet what it needs."""
    profile = modelled(
        rates={1.0: 4.0, 2.0: 6.0}, working_bytes=2 * GB, reading=None, share=Share(cpus=2.0, memory_bytes=8 * GB)
    )
    careful = not_below(profile, 8 * GB)

    assert demand(careful, num_gpus=1).memory_bytes == 8 * GB
    assert not math.isinf(demand(careful, num_gpus=1).cpus)
