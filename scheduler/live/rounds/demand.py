"""Decides how many cores and bytes of memory a job can use: as its owner asked, else as its profile says.

Unknown is +inf, which the core reads as the GPU-proportional share.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from scheduler.core.model.profile import Profile as Curves
from scheduler.core.model.profile import demand, parse_profile
from scheduler.core.spec.units import parse_size_bytes
from scheduler.models import Profile

log = logging.getLogger(__name__)

# A running job without an explicit memory request keeps its peak and a quarter more.
PEAK_ROOM = 1.25
UNKNOWN = Curves()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDemand:
    """Cores and bytes of one whole gang: ``demand`` gives full speed (+inf when unknown), ``min`` is insisted on."""

    demand_cpus: float
    demand_memory_bytes: float
    min_cpus: float
    min_memory_bytes: float


def curves_read(profile_pks: Iterable[int]) -> dict[int, Curves]:
    """Return the measured curves by profile; an unreadable row counts as unknown."""
    curves = {}
    for row in Profile.objects.filter(pk__in=set(profile_pks)).values():
        try:
            curves[row["id"]] = parse_profile({**row, "scaling": row["scaling"] or ()})
        except (ValueError, TypeError) as error:
            log.warning("profile_unreadable", extra={"profile": row["fingerprint"], "error": str(error)})
    return curves


def job_demand(
    *,
    num_gpus: int,
    asked_cpus: object,
    asked_memory: object,
    curves: Curves,
    held_memory_bytes: int,
    peak_memory_bytes: int | None,
) -> JobDemand:
    """Return the demand of one job.

    Args:
        num_gpus: Size of the gang.
        asked_cpus: ``resources.cpus`` of the stored spec: a number or ``auto``.
        asked_memory: ``resources.memory`` of the stored spec: a size with its unit or ``auto``.
        curves: Of its profile.
        held_memory_bytes: Memory it holds now; 0 when it does not run.
        peak_memory_bytes: Peak of its present attempt.
    """
    best = demand(curves, num_gpus=num_gpus)
    min_cpus = float(asked_cpus) if isinstance(asked_cpus, int | float) else 0.0
    if isinstance(asked_memory, str) and asked_memory != "auto":
        min_memory = demand_memory = float(parse_size_bytes(asked_memory))
    else:
        # Its processes are killed above the grant: never grant less than the peak seen.
        min_memory = min(float(held_memory_bytes), (peak_memory_bytes or 0) * PEAK_ROOM)
        demand_memory = max(min_memory, best.memory_bytes)
    return JobDemand(
        demand_cpus=min_cpus or best.cpus,
        demand_memory_bytes=demand_memory,
        min_cpus=min_cpus,
        min_memory_bytes=min_memory,
    )
