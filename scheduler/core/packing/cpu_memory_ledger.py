"""Cores and memory kept from round to round, for mechanisms that share out each server's among the jobs on it alone.

Replays use a ledger so that a round touches only the servers that changed (`GrantsByServer`).
"""

from collections.abc import Iterable, Mapping
from typing import Protocol

from scheduler.core.model.changes import Grant
from scheduler.core.model.cpu_memory_bounds import Needs
from scheduler.core.packing.draft import Seats


class CpuMemoryLedger(Protocol):
    """What each job has of each server. Jobs are rows of one table for the whole replay."""

    @property
    def chooses(self) -> bool:
        """Return whether jobs may get another server than the one they were seated on."""

    def leave(self, row: int) -> None:
        """Take back what a job has."""

    def sit(self, started: Mapping[int, Seats], movable: Iterable[int], free: list[int]) -> dict[int, Grant]:
        """Give cores and memory to jobs that begin on seats; return what changed, for them and for other jobs.

        Args:
            started: The seats, in the order in which they were taken.
            movable: Those of them that may get another server; then it is another in what is returned.
            free: (m,) free GPUs by server, after the started jobs took theirs.
        """


class ProportionalLedger:
    """Each GPU brings its proportional share, or what the job insists on: no grant depends on another job."""

    def __init__(self, needs: Needs) -> None:
        self.chooses = False
        self._shares = [*zip(needs.cpus_share.tolist(), needs.memory_share.tolist(), strict=True)]
        # By row: the cores and bytes that its job insists on, and the grants of all such jobs by server and GPUs.
        least = [*zip(needs.cpus_least.tolist(), needs.memory_least.tolist(), strict=True)]
        grants: dict[tuple[float, float], dict[tuple[int, int], Grant]] = {each: {} for each in least}
        self._kind = [(each, grants[each]) for each in least]

    def leave(self, row: int) -> None:
        """Do nothing: there is nothing to share out again."""

    def sit(self, started: Mapping[int, Seats], movable: Iterable[int], free: list[int]) -> dict[int, Grant]:
        """Return the grants of those that start."""
        return {
            row: self._grant(row, seats[0])
            if len(seats) == 1
            else tuple(self._grant(row, seat)[0] for seat in sorted(seats))
            for row, seats in started.items()
        }

    def _grant(self, row: int, seat: tuple[int, int]) -> Grant:
        """Return what the job gets on one server."""
        (cpus_least, memory_least), grants = self._kind[row]
        grant = grants.get(seat)
        if grant is None:
            server, gpus = seat
            cpus, memory = self._shares[server]
            grant = ((server, gpus, gpus * max(cpus_least, cpus), gpus * max(memory_least, memory)),)
            grants[seat] = grant
        return grant
