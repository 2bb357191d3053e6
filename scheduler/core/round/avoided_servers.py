"""Servers that a job avoids for a while, because the machine failed while it ran there.

They are its last choice, not forbidden: a job that fits nowhere else starts there, since waiting would help no job, and
a server on which job after job fails is drained anyway.

Source: the rule is ours (``RetryRules.avoid_server_s``); Jeon et al., "Philly", ATC 2019, section 5, only finds that
failures of a machine go away on another one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from scheduler.core.model.tables import NO_ROW, FloatArray, JobTable, Snapshot
from scheduler.core.packing.draft import Seats
from scheduler.core.packing.free_gpus import Fits, FreeGpus, Gang
from scheduler.core.packing.locality import Binds, Locality, LooksAtSizes
from scheduler.core.round.config import SchedulerConfig


def with_avoided(snapshot: Snapshot, config: SchedulerConfig) -> SchedulerConfig:
    """Return the configuration with a locality that tries the servers which a job avoids last."""
    by_job = _avoided_servers(snapshot)
    if not by_job:
        return config
    sets = sorted(set(by_job.values()), key=sorted)
    kind = _ElsewhereBySize if isinstance(config.locality, LooksAtSizes) else _Elsewhere
    number_of = {job: sets.index(servers) + 1 for job, servers in by_job.items()}
    return replace(config, locality=kind(base=config.locality, number_of=number_of, sets=(frozenset(), *sets)))


def _avoided_servers(snapshot: Snapshot) -> Mapping[int, frozenset[int]]:
    """Return the rows of the servers that jobs avoid, by job id; servers outside the snapshot are left out."""
    row_of = {server: row for row, server in enumerate(snapshot.servers.server_id.tolist())}
    found: dict[int, frozenset[int]] = {}
    for job, server in snapshot.avoids:
        if server in row_of:
            found[job] = found.get(job, frozenset()) | {row_of[server]}
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Elsewhere:
    """A locality that gives a job seats on the servers it avoids only when there are none on the others.

    Attributes:
        base: The locality among the others.
        number_of: Which set each job has, by its number.
        sets: Rows of servers; the first is empty.
    """

    name: ClassVar[str] = "elsewhere"

    base: Locality
    number_of: Mapping[int, int]
    sets: tuple[frozenset[int], ...]

    def kinds(self, jobs: JobTable, now_s: float) -> tuple[FloatArray, ...]:
        own = np.array([self.number_of.get(job, 0) for job in jobs.job_id.tolist()], dtype=np.float64)
        return (*self.base.kinds(jobs, now_s), own)

    def seats(self, space: FreeGpus, gang: Gang) -> Seats:
        avoided, gang = self.sets[int(gang.kind[-1])], replace(gang, kind=gang.kind[:-1])
        if avoided and (found := self.base.seats(space, replace(gang, fits=_outside(avoided, gang.fits)))):
            return found
        return self.base.seats(space, gang)

    def home_of(self, job_id: int) -> int:
        if job_id in self.number_of or not isinstance(self.base, Binds):
            return NO_ROW
        return self.base.home_of(job_id)

    def binds(self, job_id: int, seats: Seats) -> bool:
        return job_id in self.number_of or (isinstance(self.base, Binds) and self.base.binds(job_id, seats))


@dataclass(frozen=True, slots=True, kw_only=True)
class _ElsewhereBySize(_Elsewhere):
    looks_at_sizes: ClassVar[bool] = True


def _outside(avoided: frozenset[int], fits: Fits | None) -> Fits:
    return lambda server, gpus: server not in avoided and (fits is None or fits(server, gpus))
