"""Number the distinct values of a column, without sorting where they are small whole numbers."""

import numpy as np

from scheduler.core.model.tables import IntArray


def numbered(values: IntArray) -> tuple[IntArray, IntArray]:
    """Return the distinct values, ascending, and (n,) the place of each value among them; none is below 0."""
    if int(values.max(initial=0)) > 1_000 + 10 * len(values):
        distinct, place = np.unique(values, return_inverse=True)
        return distinct, place
    has = np.bincount(values) > 0
    return np.flatnonzero(has), (np.cumsum(has) - 1)[values]
