"""Lower and upper bounds of the cores and memory of a gang, per GPU on each server.

The least a job must get on a server is what the user insists on, or its GPU-proportional share, or less than that share
where it is at full speed with less (only under mechanisms that trim). What all jobs must get together fits on a server
whenever their GPUs do, unless users insist on more than the share.
"""

from dataclasses import dataclass, field

import numpy as np

from scheduler.core.model.barred import NONE_BARRED, Barred
from scheduler.core.model.tables import NO_ROW, FloatArray, IntArray, JobTable, ServerTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """Columns per GPU; ``*_least`` and ``*_most`` are bounds of the job, ``*_share`` is the server's.

    Attributes:
        cpus_least: (n,) cores that the user insists on, per GPU.
        cpus_most: (n,) cores for full speed, per GPU; +inf when unknown or not looked at. Never below ``cpus_least``.
        memory_least: (n,) the same for memory, bytes.
        memory_most: (n,) the same for memory, bytes.
        cpus_share: (m,) GPU-proportional share of the server, cores per GPU.
        memory_share: (m,) the same for memory, bytes.
        tight: Whether more than GPUs may bind: a user insists on more than some server's share of cores or memory, or
            some job may not use all servers.
        barred: Servers on which a job may not start.
    """

    cpus_least: FloatArray
    cpus_most: FloatArray
    memory_least: FloatArray
    memory_most: FloatArray
    cpus_share: FloatArray
    memory_share: FloatArray
    tight: bool
    barred: Barred = field(default_factory=dict)


def needs_of(
    jobs: JobTable, servers: ServerTable, *, trims: bool, insists: bool, barred: Barred = NONE_BARRED
) -> Needs:
    """Return the needs of all jobs.

    Args:
        jobs: The jobs.
        servers: The servers.
        trims: Whether a job may get less than its GPU-proportional share where less is enough.
        insists: Whether a known demand is a hard one: the job gets all of it, as far as one server has it, or does not
            start.
        barred: As in ``Needs``.
    """
    gpus = np.maximum(jobs.num_gpus, 1)
    cpus_least, memory_least = jobs.min_cpus / gpus, jobs.min_memory_bytes / gpus
    cpus_most, memory_most = np.full(len(jobs), np.inf), np.full(len(jobs), np.inf)
    if trims:
        cpus_most = np.maximum(jobs.demand_cpus / gpus, cpus_least)
        memory_most = np.maximum(jobs.demand_memory_bytes / gpus, memory_least)
    if insists and len(servers):
        # A gang wider than a server gets its share: nothing else could be split like its GPUs.
        at = _roomiest(jobs.num_gpus, servers)
        for least, most, demand, capacity in (
            (cpus_least, cpus_most, jobs.demand_cpus, servers.num_cpus),
            (memory_least, memory_most, jobs.demand_memory_bytes, servers.memory_bytes),
        ):
            known = np.isfinite(demand) & (at != NO_ROW)
            np.maximum(least, np.minimum(demand, capacity[at]) / gpus, out=least, where=known)
            np.copyto(most, least, where=known)
    server_gpus = np.maximum(servers.num_gpus, 1)
    cpus_share, memory_share = servers.num_cpus / server_gpus, servers.memory_bytes / server_gpus
    used = servers.num_gpus > 0
    tight = bool(used.any() and len(jobs)) and bool(
        cpus_least.max() > cpus_share[used].min() or memory_least.max() > memory_share[used].min()
    )
    return Needs(
        cpus_least=cpus_least,
        cpus_most=cpus_most,
        memory_least=memory_least,
        memory_most=memory_most,
        cpus_share=cpus_share,
        memory_share=memory_share,
        tight=tight or bool(barred),
        barred=barred,
    )


def _roomiest(num_gpus: IntArray, servers: ServerTable) -> IntArray:
    """Return (n,) the server with the most cores, then the most memory, that holds each gang; NO_ROW for none."""
    ranked = np.lexsort((-servers.memory_bytes, -servers.num_cpus))
    first = np.searchsorted(np.maximum.accumulate(servers.num_gpus[ranked]), num_gpus)
    return np.append(ranked, NO_ROW)[first]


def must_have(least: FloatArray | float, most: FloatArray | float, share: FloatArray) -> FloatArray:
    """Return what a job must get per GPU: its share, less where less is enough, more where the user insists."""
    return np.maximum(least, np.minimum(most, share))
