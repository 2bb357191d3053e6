"""Compare demands over several resources: dominant shares, alignment with servers, order by groups (DRF, Tetris).

Arrays have the axis of resources last: GPUs, cores, bytes.
"""

import math
from dataclasses import dataclass

import numpy as np

from scheduler.core.model.tables import FloatArray, IntArray, JobTable, ServerTable, Snapshot

_SHARE_DIGITS = 12
_SHARE_UNITS = 10.0**_SHARE_DIGITS


@dataclass(frozen=True, slots=True, kw_only=True)
class Filling:
    """Groups of which the one that holds least is served next.

    Attributes:
        group: (n,) number of the group of each job, such as its user or queue.
        asked: (n, r) what each job adds to what its group holds, already divided by the weight of the group.
        capacity: (r,) what the cluster has.
    """

    group: IntArray
    asked: FloatArray
    capacity: FloatArray

    def sums_are_exact(self) -> bool:
        """Return whether what jobs add sums up to the same in any order, to the last bit."""
        mantissa, exponent = np.frexp(self.asked)
        digits = np.abs(mantissa * 2.0**53).astype(np.int64)
        lowest = np.ldexp((digits & -digits).astype(np.float64), exponent - 53)
        finest = lowest.min(axis=0, initial=np.inf, where=digits > 0)
        return bool((self.asked.sum(axis=0) <= finest * 2.0**53).all())


def capacities(servers: ServerTable) -> FloatArray:
    """Return (m, 3) what each server has."""
    return np.column_stack((servers.num_gpus.astype(np.float64), servers.num_cpus, servers.memory_bytes))


def demands(jobs: JobTable, servers: ServerTable) -> FloatArray:
    """Return (n, 3) what each whole gang asks for; what is not known is its GPU-proportional share."""
    gpus = jobs.num_gpus.astype(np.float64)
    per_gpu = capacities(servers).sum(axis=0) / max(1.0, float(servers.num_gpus.sum()))
    asked = [
        np.where(np.isfinite(demand), demand, gpus * share)
        for demand, share in zip((jobs.demand_cpus, jobs.demand_memory_bytes), per_gpu[1:], strict=True)
    ]
    return np.column_stack((gpus, *asked))


def dominant_share(held: FloatArray, capacity: FloatArray) -> FloatArray:
    """Return (n,) largest share that each holds of any resource of the cluster.

    Args:
        held: (n, r) amounts.
        capacity: (r,) what the cluster has; resources that it does not have are left out.

    Source: Ghodsi et al., "DRF", NSDI 2011, s = max_r U_r / R_r.
    """
    share: FloatArray = _relative(held, capacity).max(axis=-1, initial=0.0)
    return share


def _relative(amounts: FloatArray, capacity: FloatArray) -> FloatArray:
    return np.divide(amounts, capacity, out=np.zeros(np.broadcast(amounts, capacity).shape), where=capacity > 0)


def shares_before(
    held: FloatArray,
    *,
    group: IntArray,
    rank: IntArray,
    capacity: FloatArray,
    begin: FloatArray | None = None,
    weight: FloatArray | None = None,
) -> FloatArray:
    """Return (n,) the dominant share of a job's group just before the job gets what it asks for.

    Taking jobs by this key, smallest first, always serves the group that holds least: progressive filling.

    Args:
        held: (n, r) what each job asks for, divided by the weight of its group unless ``weight`` is given.
        group: (n,) number of the group, such as its user or queue.
        rank: (n,) place of each job among all; inside a group the smaller one is served first.
        capacity: (r,) what the cluster has.
        begin: (n, r) what the group of each job has from the start; None for nothing.
        weight: (n,) of the group of each job, by which the sums are divided; whole numbers add up exactly until then.
    """
    by_group = np.lexsort((rank, group))
    amounts = held[by_group]
    before = np.cumsum(amounts, axis=0) - amounts
    first = np.searchsorted(group[by_group], group[by_group])
    before = before - before[first] if len(first) else before
    if weight is not None:
        before = before / weight[by_group, np.newaxis]
    share = np.empty(len(held))
    share[by_group] = dominant_share(before if begin is None else before + begin[by_group], capacity)
    # Rounded, so that shares that are equal on paper tie.
    return np.round(share, _SHARE_DIGITS)


def rounded_share(share: float) -> float:
    """Return one share as ``shares_before`` rounds it."""
    return round(share * _SHARE_UNITS) / _SHARE_UNITS


def service_order(jobs: JobTable) -> IntArray:
    """Return (n,) place of each job: running ones first, then by first start, arrival and id."""
    order = np.lexsort((jobs.job_id, jobs.arrival_s, jobs.first_start_s, ~jobs.running))
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    return place


def alignment(demand: FloatArray, free: FloatArray, capacity: FloatArray) -> FloatArray:
    """Return (n, m) how well each job suits what is free on each server; NaN where it does not fit.

    Args:
        demand: (n, r) what each job asks for.
        free: (m, r) what is free on each server.
        capacity: (m, r) what each server has.

    Source: Grandl et al., "Tetris", SIGCOMM 2014: the dot product of demand and free amounts, both relative to the
        capacity of the server.
    """
    score = np.zeros((len(demand), len(free)))
    fits = np.ones(score.shape, dtype=np.bool_)
    for resource in range(demand.shape[-1]):
        asked, has = demand[:, resource, np.newaxis], free[np.newaxis, :, resource]
        score += _relative(asked, capacity[:, resource]) * _relative(has, capacity[:, resource])
        fits &= asked <= has * (1 + 1e-9)
    return np.where(fits, score, np.nan)


def with_short_first(align: FloatArray, work_s: FloatArray, *, weight: float = math.inf) -> FloatArray:
    """Return (n,) alignment plus ``weight`` times how much less work a job has left than the longest one.

    Args:
        align: (n,) alignment of jobs that fit.
        work_s: (n,) their remaining work; that of the longest where unknown (+inf).
        weight: Epsilon; +inf for the one with which both terms weigh the same on average.

    Source: Grandl et al., "Tetris", SIGCOMM 2014, the combined score.
    """
    known = np.isfinite(work_s)
    less = np.where(known, work_s.max(initial=0.0, where=known) - np.where(known, work_s, 0.0), 0.0)
    if math.isinf(weight):
        weight = epsilon(align, less)
    return align + weight * less


def epsilon(align: FloatArray, less_work: FloatArray) -> float:
    """Return mean alignment over mean of the other term; 0 when that is 0."""
    mean = float(less_work.mean()) if len(less_work) else 0.0
    return float(align.mean()) / mean if mean > 0 else 0.0


def free_capacities(snapshot: Snapshot) -> FloatArray:
    """Return (m, 3) what no job holds of each server."""
    free, held = capacities(snapshot.servers), snapshot.held
    for resource, amounts in enumerate((held.num_gpus, held.cpus, held.memory_bytes)):
        free[:, resource] -= np.bincount(held.server, weights=amounts, minlength=len(free))
    return free
