"""Give cores and memory that are left on the servers to the jobs that gain most from them."""

from collections.abc import Iterator
from dataclasses import replace
from heapq import heapify, heappop, heappush

import numpy as np

from scheduler.core.model.profile import Profile, sensitivity
from scheduler.core.model.tables import NO_ROW, Placements
from scheduler.core.packing.draft import Draft

# Float sums of cores and bytes may miss their exact value by this share.
_TOLERANCE = 1e-9
# Gains below this are float dust.
_DUST = 1e-9


def top_up(grants: Placements, draft: Draft) -> Placements:
    """Return the grants with unused cores and memory, given step by step where speed grows most.

    A step raises a job to the next point of its grid that makes it faster, in cores or in memory, on all its servers.
    Ties go to the job that the policy puts first. No job loses anything; jobs without a profile get nothing.

    Source: none; Synergy leaves what demoted jobs do not get unused.
    """
    return _TopUp(grants, draft).run()


# What a step raises.
_CPUS, _MEMORY = 0, 1


class _TopUp:
    def __init__(self, grants: Placements, draft: Draft) -> None:
        self._grants, self._draft = grants, draft
        servers = draft.servers
        self._per_gpu = [(grants.cpus / grants.num_gpus).tolist(), (grants.memory_bytes / grants.num_gpus).tolist()]
        self._server, self._gpus = grants.server.tolist(), grants.num_gpus.tolist()
        self._spare: list[list[float]] = []
        for capacity, given in ((servers.num_cpus, grants.cpus), (servers.memory_bytes, grants.memory_bytes)):
            used = np.bincount(grants.server, weights=given, minlength=len(servers))
            self._spare.append((capacity * (1 + _TOLERANCE) - used).tolist())
        self._seats: dict[int, list[int]] = {}
        for seat, job in enumerate(grants.job.tolist()):
            self._seats.setdefault(job, []).append(seat)
        self._next: dict[tuple[int, float, float], list[tuple[float, int, float]]] = {}

    def run(self) -> Placements:
        """Give steps until none fits or helps."""
        profile_of = self._draft.jobs.profile.tolist()
        known = [job for job in self._draft.seats if profile_of[job] != NO_ROW]
        place = {job: number for number, job in enumerate(known)}
        steps = [(-gain, place[job], what, job, to) for job in known for gain, what, to in self._steps(job)]
        heapify(steps)
        while steps:
            gain, number, what, job, to = heappop(steps)
            # An older entry of a job that was raised since: its gain is not what it would be now.
            if (-gain, what, to) in self._steps(job) and self._raise(job, what, to):
                for again, what_next, to_next in self._steps(job):
                    heappush(steps, (-again, number, what_next, job, to_next))
        return self._raised()

    def _steps(self, job: int) -> list[tuple[float, int, float]]:
        """Return the next step of the job in each direction as (gain, what it raises, to how much per GPU)."""
        seats, row = self._seats[job], int(self._draft.jobs.profile[job])
        # A gang runs as its slowest part.
        cpus, memory = (min(self._per_gpu[what][seat] for seat in seats) for what in (_CPUS, _MEMORY))
        key = (row, cpus, memory)
        if key not in self._next:
            self._next[key] = [*_gaining(self._draft.jobs.profiles[row], cpus, memory)]
        return self._next[key]

    def _raise(self, job: int, what: int, to: float) -> bool:
        """Give the job the step if all its servers have it."""
        spare, per_gpu = self._spare[what], self._per_gpu[what]
        more = [(seat, self._gpus[seat] * max(0.0, to - per_gpu[seat])) for seat in self._seats[job]]
        if any(amount > spare[self._server[seat]] for seat, amount in more):
            return False
        for seat, amount in more:
            spare[self._server[seat]] -= amount
            per_gpu[seat] = max(to, per_gpu[seat])
        return True

    def _raised(self) -> Placements:
        grants = self._grants
        return replace(
            grants,
            cpus=np.maximum(grants.cpus, grants.num_gpus * np.array(self._per_gpu[_CPUS])),
            memory_bytes=np.maximum(grants.memory_bytes, grants.num_gpus * np.array(self._per_gpu[_MEMORY])),
        )


def _gaining(profile: Profile, cpus: float, memory: float) -> Iterator[tuple[float, int, float]]:
    now = sensitivity(profile, cpus_per_gpu=cpus, memory_bytes_per_gpu=memory)
    for what, grid in ((_CPUS, profile.cpus_per_gpu), (_MEMORY, profile.memory_bytes_per_gpu)):
        for point in grid:
            if point <= (cpus, memory)[what]:
                continue
            at = (point, memory) if what == _CPUS else (cpus, point)
            gain = sensitivity(profile, cpus_per_gpu=at[0], memory_bytes_per_gpu=at[1]) - now
            if gain > _DUST:
                yield round(gain, 9), what, point
                break
