"""Account for held and borrowed GPUs: GPU-hours and loans between queues over a range of time.

A queue borrows what it holds beyond its own quota. That comes first from GPUs that are in no quota, then from
the quotas that other queues leave unused, from each in proportion to what it leaves.
"""

from dataclasses import dataclass

import numpy as np

from scheduler.core.model.tables import FloatArray, IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    """GPUs that were held, one row for each interval in which an account's number did not change.

    Attributes:
        account: (h,) number of the queue, from 0.
        num_gpus: (h,) GPUs.
        begin_s, end_s: (h,) seconds.
    """

    account: IntArray
    num_gpus: FloatArray
    begin_s: FloatArray
    end_s: FloatArray


def gpu_seconds(holdings: Holdings, *, since_s: float, until_s: float) -> FloatArray:
    """Return (h,) GPU-seconds of each holding that lie in [since, until)."""
    inside = np.minimum(holdings.end_s, until_s) - np.maximum(holdings.begin_s, since_s)
    spent: FloatArray = holdings.num_gpus * np.maximum(0.0, inside)
    return spent


def held_over_time(
    holdings: Holdings, *, accounts: int, since_s: float, until_s: float, also_at_s: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the moments at which an account may come to hold more or fewer GPUs, and what each holds from then on.

    Args:
        holdings: What was held.
        accounts: How many accounts there are, k.
        since_s, until_s: The range.
        also_at_s: Further moments of interest; those outside the range are left out.

    Returns:
        (t,) moments, the first is the beginning and the last the end of the range; (t, k) GPUs held from each on.
    """
    begin_s, end_s = np.maximum(holdings.begin_s, since_s), np.minimum(holdings.end_s, until_s)
    kept = end_s > begin_s
    begin_s, end_s, gpus, account = begin_s[kept], end_s[kept], holdings.num_gpus[kept], holdings.account[kept]
    also_at_s = also_at_s[(also_at_s > since_s) & (also_at_s < until_s)]
    at_s = np.unique(np.concatenate(([since_s, until_s], begin_s, end_s, also_at_s)))
    steps = np.zeros((len(at_s), accounts))
    np.add.at(steps, (np.searchsorted(at_s, begin_s), account), gpus)
    np.add.at(steps, (np.searchsorted(at_s, end_s), account), -gpus)
    return at_s, np.cumsum(steps, axis=0)


def steps_at(at_s: FloatArray, changed_at_s: FloatArray, values: FloatArray) -> FloatArray:
    """Return (t,) a value that changes now and then, at moments.

    Args:
        at_s: (t,) the moments.
        changed_at_s: (c,) when it changed, ascending.
        values: (c + 1,) what it was before the first change and after each.
    """
    found: FloatArray = values[np.searchsorted(changed_at_s, at_s, side="right")]
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Loans:
    """GPUs lent between accounts.

    Attributes:
        gpu_s: (k + 1, k) GPU-seconds that each account lent to each; the last row is GPUs that are in no quota.
        now_gpus: (k + 1, k) GPUs lent at the end of the range.
    """

    gpu_s: FloatArray
    now_gpus: FloatArray


def loans(at_s: FloatArray, held: FloatArray, quota: FloatArray, capacity: FloatArray) -> Loans:
    """Return what each account lent to each other.

    Args:
        at_s: (t,) moments, the last of them the end.
        held: (t, k) GPUs that each account held from each moment on.
        quota: (t, k) its own quota.
        capacity: (t,) GPUs of the cluster.
    """
    borrowed, unused = np.maximum(0.0, held - quota), np.maximum(0.0, quota - held)
    total = borrowed.sum(axis=1)
    nobodys = np.minimum(total, np.maximum(0.0, capacity - quota.sum(axis=1)))
    from_others = np.minimum(total - nobodys, unused.sum(axis=1))
    # Borrowed GPUs that no queue lent, as after servers were lost, count as GPUs in no quota.
    nobodys = total - from_others
    lent = unused * _over(from_others, unused.sum(axis=1))[:, None]
    lent = np.concatenate((lent, nobodys[:, None]), axis=1)
    shares = borrowed * _over(np.ones(len(total)), total)[:, None]
    span_s = np.diff(at_s)
    gpu_s = (lent[:-1] * span_s[:, None]).T @ shares[:-1]
    last = max(0, len(at_s) - 2)
    return Loans(gpu_s=gpu_s, now_gpus=np.outer(lent[last], shares[last]))


def _over(part: FloatArray, whole: FloatArray) -> FloatArray:
    found: FloatArray = np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)
    return found


def means_between(at_s: FloatArray, values: FloatArray | IntArray, edges_s: FloatArray) -> FloatArray:
    """Return (e - 1,) means over time of a value between edges, exact for a value that holds from moment to moment.

    Args:
        at_s: (t,) moments, the first at the first edge or before, the last at the last edge or later.
        values: (t,) the value from each moment on.
        edges_s: (e,) ascending.
    """
    whole = np.concatenate(([0.0], np.cumsum(values[:-1] * np.diff(at_s))))
    found: FloatArray = np.diff(np.interp(edges_s, at_s, whole)) / np.diff(edges_s)
    return found
