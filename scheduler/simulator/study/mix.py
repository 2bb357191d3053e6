"""Which mix of models the jobs of a trace get, and whether its models slow them below what the trace says.

A mix gives jobs of which nothing is known a sensitivity to cores and memory. It stands in for what a trace does not
tell, so by default there is none where the trace tells what its jobs request, or on servers unlike the measured ones.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from scheduler.core.model.profile import Profile, sensitivity
from scheduler.core.model.tables import FloatArray, ServerTable
from scheduler.simulator.jobs import UNKNOWN, SimJob
from scheduler.simulator.speeds.profiles import DEFAULT_MIX

# Cores for each GPU of the machines for which the profiles were published.
MEASURED_CPUS_PER_GPU = range(3, 7)
_TOLERANCE = 1e-6


def mix_of(
    asked: Mapping[str, float] | None, jobs: Sequence[SimJob], servers: ServerTable
) -> tuple[Mapping[str, float], list[str]]:
    """Return the shares of the classes of models, empty for no models, and what to tell about it.

    Args:
        asked: What the user chose; None for the default.
        jobs: The jobs of the trace.
        servers: The cluster.
    """
    if asked is not None:
        return asked, []
    if all(job.profile != UNKNOWN for job in jobs):
        return {}, []  # their trace tells how fast each is
    why = _why_none(jobs, servers)
    if not why:
        return DEFAULT_MIX, []
    return {}, [f"no job gets a model: {why}; --mix image=20,language=70,speech=10 would draw some"]


def _why_none(jobs: Sequence[SimJob], servers: ServerTable) -> str:
    if any(job.min_cpus or job.min_memory_bytes for job in jobs):
        return "the trace tells which cores and memory its jobs request"
    cpus, memory = _shares(servers)
    if cpus.max() > cpus.min() * (1 + _TOLERANCE) or memory.max() > memory.min() * (1 + _TOLERANCE):
        return "what comes with a GPU differs from server to server"
    least, most = MEASURED_CPUS_PER_GPU[0], MEASURED_CPUS_PER_GPU[-1]
    if not least * (1 - _TOLERANCE) <= cpus[0] <= most * (1 + _TOLERANCE):
        return f"models were measured with {least} to {most} cores for each GPU, the servers have {cpus[0]:g}"
    return ""


def slowed(jobs: Sequence[SimJob], servers: ServerTable) -> list[str]:
    """Return a warning where models make jobs slower than their trace says on some server, at its share or request."""
    cpus, memory = _shares(servers)
    shares = {*zip(cpus.tolist(), memory.tolist(), strict=True)}
    slow: dict[tuple[Profile, float, float], bool] = {}

    def is_slow(job: SimJob) -> bool:
        least = job.min_cpus / job.num_gpus, job.min_memory_bytes / job.num_gpus
        known = (job.profile, *least)
        if known not in slow:
            speeds = [
                sensitivity(job.profile, cpus_per_gpu=max(least[0], own), memory_bytes_per_gpu=max(least[1], with_it))
                for own, with_it in shares
            ]
            slow[known] = min(speeds) < 1 - _TOLERANCE
        return slow[known]

    number = sum(is_slow(job) for job in jobs)
    if not number:
        return []
    return [
        f"the models of {number:,} of {len(jobs):,} jobs make them slower than the trace says on servers with less "
        "cores or memory for each GPU than the mean; --mix none leaves run times as they are"
    ]


def _shares(servers: ServerTable) -> tuple[FloatArray, FloatArray]:
    """Return cores and bytes for each GPU, by server with GPUs."""
    used = servers.num_gpus > 0
    gpus = servers.num_gpus[used].astype(np.float64)
    return servers.num_cpus[used] / gpus, servers.memory_bytes[used] / gpus
