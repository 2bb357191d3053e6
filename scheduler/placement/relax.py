"""Close together at first, further apart the longer a job waits (Philly's levels)."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from scheduler.core.model.tables import NO_ROW, FloatArray, JobTable
from scheduler.core.packing.draft import Seats
from scheduler.core.packing.free_gpus import FreeGpus, Gang
from scheduler.placement.fewest import on_fewest_servers

# Fewest servers of one rack; up to twice as many; any servers of one rack; any servers.
FEWEST, TWICE, RACK, ANYWHERE = range(4)
# Waiting time is a sum of floats; this much short of a level counts as reached.
_DUST_S = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Relax:
    """Fewest servers of one rack at first; the longer a job waits, the more servers and at last other racks.

    Source: Jeon et al., "Philly", ATC 2019, section 2.3: the rack with the most free GPUs, the emptiest servers first,
    the remainder on the server with the fewest free GPUs that still has enough; a try that fails backs off, and some
    failed tries relax the level. The paper gives the levels; its numbers of tries are not public. Differs: a level
    follows from the time waited, so nothing else is remembered, and it begins anew when a job was preempted. GPUs are
    not held while the rest of a gang is awaited: a central round sees at once whether the whole gang fits. The retries
    of different jobs need no jitter for the same reason. Where the rack with the most free GPUs cannot hold the gang on
    few enough servers, the next one is tried.
    """

    name: ClassVar[str] = "relax"

    acquire_timeout_s: float = field(
        default=150.0, metadata={"help": "How long one try waits for its GPUs.", "minimum": 1.0}
    )
    back_off_s: float = field(default=120.0, metadata={"help": "Pause after a try that failed.", "minimum": 0.0})
    tries_per_level: int = field(
        default=3, metadata={"help": "Failed tries after which locality is relaxed by one level.", "minimum": 1}
    )

    @property
    def level_s(self) -> float:
        """Time on each level, seconds."""
        return self.tries_per_level * (self.acquire_timeout_s + self.back_off_s)

    def _levels(self, jobs: JobTable) -> FloatArray:
        return np.minimum(ANYWHERE, np.floor((jobs.waited_s + _DUST_S) / self.level_s))

    def kinds(self, jobs: JobTable, now_s: float) -> tuple[FloatArray, ...]:
        """Return the level of every job, by the time it has waited."""
        return (self._levels(jobs),)

    def next_change_s(self, jobs: JobTable) -> FloatArray:
        """Return (n,) seconds until a waiting job relaxes to its next level."""
        levels = self._levels(jobs)
        return np.where(jobs.running | (levels == ANYWHERE), np.inf, (levels + 1) * self.level_s - jobs.waited_s)

    def seats(self, space: FreeGpus, gang: Gang) -> Seats:
        """Return the fewest servers that the level of the gang allows, in the rack with the most free GPUs."""
        level = gang.kind[0]
        most = _most_servers(level, gang)
        if space.total < gang.num_gpus or (most == 1 and space.best_fit(gang.num_gpus, gang.fits) == NO_ROW):
            return ()
        for rack in _racks(space, gang.num_gpus):
            seats = on_fewest_servers(rack, gang, max_servers=most)
            if seats:
                return seats
        return on_fewest_servers(space, gang, max_servers=most) if level == ANYWHERE else ()


def _most_servers(level: float, gang: Gang) -> int:
    fewest = max(1, gang.least_servers)
    if level >= RACK:
        return gang.max_servers
    most = fewest if level == FEWEST else 2 * fewest
    return min(most, gang.max_servers) if gang.max_servers else most


def _racks(space: FreeGpus, num_gpus: int) -> Iterator[FreeGpus]:
    """Yield each rack with enough free GPUs as if the others had none, most free GPUs first."""
    topology, free = space.topology, space.free
    totals: dict[int, int] = {}
    for rack, count in zip(topology.rack, free, strict=True):
        totals[rack] = totals.get(rack, 0) + count
    if len(totals) == 1:
        yield space
        return
    for rack in sorted(totals, key=lambda rack: (-totals[rack], rack)):
        if totals[rack] < num_gpus:
            return
        yield FreeGpus([count if at == rack else 0 for at, count in zip(topology.rack, free, strict=True)], topology)
