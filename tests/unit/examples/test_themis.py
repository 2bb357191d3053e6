"""Finish-time fairness as the policy sees it, on the worked example of Themis."""

import numpy as np
import pytest

from scheduler.core.model.profile import Profile
from scheduler.policies.themis import Market
from tests.support.simulator.strategies import NOW_S, JobRow, ServerRow, snapshot_of

# Throughput falls behind the number of GPUs: k^0.9.
CURVE = Profile(scaling=tuple((float(gpus), gpus**0.9) for gpus in range(1, 9)))
# Between whole numbers of GPUs throughput is taken to be linear, and the equal share is 8/3 GPUs.
LINEAR = 0.003


def _market() -> Market:
    """Return apps A, B and C on 8 GPUs, of which three share: work, most GPUs, age and work left."""
    apps = [(8.0, 4, 4.0, 6.0), (16.0, 8, 2.0, 14.0), (4.0, 2, 0.0, 4.0)]
    rows = [
        JobRow(
            arrival_s=NOW_S - age,
            remaining_s=left,
            total_s=work,
            sharers=3.0,
            min_gpus=1,
            max_gpus=most,
            profile=CURVE,
        )
        for work, most, age, left in apps
    ]
    return Market.of(snapshot_of(rows, [ServerRow()]), 8)


def test_ideal_times() -> None:
    """8 / (8/3)^.9, 16 / (8/3)^.9, and 4 / 2^.9 for the app that cannot use more than two GPUs."""
    assert _market().ideal_s.tolist() == pytest.approx([3.309, 6.618, 2.144], rel=LINEAR)


@pytest.mark.parametrize(
    ("gpus", "rho"),
    [
        ((1, 1, 1), (3.022, 2.418, 1.866)),
        ((2, 2, 2), (2.180, 1.436, 1.000)),
        ((3, 3, 2), (1.883, 1.089, 1.000)),
        ((4, 4, 2), (1.729, 0.910, 1.000)),
        ((4, 6, 2), (1.729, 0.724, 1.000)),
    ],
)
def test_fairness_by_number_of_gpus(gpus: tuple[int, ...], rho: tuple[float, ...]) -> None:
    """The table of the example: no app can use more than its most."""
    assert _market().rho(np.array(gpus)).tolist() == pytest.approx(rho, rel=LINEAR)
