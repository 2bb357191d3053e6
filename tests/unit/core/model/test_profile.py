"""Speed of a job with what it is given."""

import math

import pytest

from scheduler.core.model.profile import (
    Profile,
    demand,
    interference,
    locality,
    parse_profile,
    scaling,
    sensitivity,
    speed,
)

MODEL = Profile(
    cpus_per_gpu=(1, 3, 6),
    memory_bytes_per_gpu=(10, 20),
    relative_speed=((0.2, 0.4), (0.5, 1.0), (0.5, 1.5)),
    scaling=((1, 1), (2, 1.8), (8, 6)),
    skew=0.72,
    interference=(0.6, 0.4),
)


@pytest.mark.parametrize(
    ("cpus", "memory", "value"),
    [(3, 20, 1.0), (5.9, 25, 1.0), (6, 19, 0.5), (100, 100, 1.5), (0.5, 20, 0.2), (3, 5, 0.25)],
)
def test_sensitivity_rounds_down_to_the_grid(cpus: float, memory: float, value: float) -> None:
    """Between grid points the lower one counts; below the first the speed falls in proportion."""
    assert sensitivity(MODEL, cpus_per_gpu=cpus, memory_bytes_per_gpu=memory) == pytest.approx(value)


def test_amounts_survive_a_division() -> None:
    """A third of three GPUs' cores is still on the grid point."""
    assert sensitivity(MODEL, cpus_per_gpu=(3 * 0.1 + 2.7) / 1.0, memory_bytes_per_gpu=20) == 1.0


def test_demand_is_the_least_at_full_speed() -> None:
    """Least cores, then least memory; unknown without a matrix."""
    assert demand(MODEL, num_gpus=2).cpus == 12
    assert demand(MODEL, num_gpus=2).memory_bytes == 40
    assert demand(Profile(), num_gpus=2).cpus == math.inf


@pytest.mark.parametrize(("gpus", "value"), [(1, 1), (2, 1.8), (5, 3.9), (8, 6), (16, 6), (0.5, 0.5)])
def test_scaling_is_linear_between_points_and_flat_beyond(gpus: float, value: float) -> None:
    """Nothing is assumed to be gained beyond what was measured."""
    assert scaling(MODEL, gpus) == pytest.approx(value)


def test_spreading_hurts_skewed_models() -> None:
    """Tiresias: VGG16, skew .74, on 4 servers runs at .62; ResNet50, skew .11, at 1."""
    assert locality(Profile(skew=0.74), num_servers=4) == pytest.approx(0.62, abs=0.01)
    assert locality(Profile(skew=0.11), num_servers=4) == 1.0
    assert locality(MODEL, num_servers=1) == 1.0


def test_neighbours_slow_a_job_down() -> None:
    """By their number; beyond the last measured number it stays."""
    assert [interference(MODEL, neighbours=n) for n in (0, 1, 2, 5)] == [1.0, 0.6, 0.4, 0.4]


def test_what_is_not_known_does_not_slow_down() -> None:
    """Every factor of an empty profile is 1 on the GPUs it asked for."""
    assert speed(Profile(), asked_gpus=4, num_gpus=4, cpus=1, memory_bytes=1, num_servers=4, neighbours=3) == 1.0


def test_speed_is_the_product_of_its_factors() -> None:
    """Scaling x sensitivity x locality x interference."""
    value = speed(MODEL, asked_gpus=2, num_gpus=8, cpus=48, memory_bytes=160, num_servers=1, neighbours=1)

    assert value == pytest.approx(6 / 1.8 * 1.5 * 0.6)


def test_a_matrix_must_fit_its_axes() -> None:
    """Rows follow the cores, columns the memory, axes rise."""
    with pytest.raises(ValueError, match="1 rows of 2"):
        parse_profile({"cpus_per_gpu": [1], "memory_bytes_per_gpu": [1, 2], "relative_speed": [[1]]})
    with pytest.raises(ValueError, match="must rise"):
        parse_profile({"cpus_per_gpu": [2, 1], "memory_bytes_per_gpu": [1], "relative_speed": [[1], [1]]})


def test_a_gang_spread_thinly_is_as_slow_as_measured() -> None:
    """Linear between measured points, flat beyond them, 1 on one server; by the skew when the GPUs are not given."""
    profile = Profile(skew=0.9, spread=((2.0, 0.6), (4.0, 0.9), (8.0, 1.0)))

    measured = {servers: locality(profile, num_servers=servers, num_gpus=16) for servers in (1, 2, 4, 8, 16)}
    assert measured == pytest.approx({1: 1.0, 2: 1.0, 4: 0.9, 8: 0.6, 16: 0.6})
    assert locality(profile, num_servers=2, num_gpus=12) == pytest.approx(0.95)
    assert locality(profile, num_servers=2) == locality(Profile(skew=0.9), num_servers=2, num_gpus=12) < 0.7
    assert parse_profile({"spread": [[2, 0.6]]}).spread == ((2.0, 0.6),)
