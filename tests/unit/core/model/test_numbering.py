"""Numbers for distinct values, with and without sorting, and the order of seats."""

import numpy as np
import pytest

from scheduler.core.model.numbering import numbered
from scheduler.core.model.tables import seat_order


@pytest.mark.parametrize("values", [[], [0], [7, 7, 3], [5, 0, 5, 2], [10**12, 4, 10**12]])
def test_values_are_numbered_in_their_order(values: list[int]) -> None:
    """Small whole numbers and large ones alike."""
    distinct, place = numbered(np.array(values, dtype=np.int64))

    assert distinct.tolist() == sorted(set(values))
    assert [distinct.tolist()[at] for at in place] == values


@pytest.mark.parametrize("seats", [[], [(3, 1)], [(0, 2), (0, 4), (1, 0)], [(5, 1), (2, 9), (5, 0), (-1, 3), (-1, 0)]])
def test_seats_are_sorted_by_job_then_server(seats: list[tuple[int, int]]) -> None:
    """Also of jobs outside the table, whose row is -1."""
    job, server = np.array(seats, dtype=np.int64).reshape(-1, 2).T

    assert [seats[at] for at in seat_order(job, server)] == sorted(seats)
