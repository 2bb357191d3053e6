"""Cores and memory, kept from round to round by mechanisms under which a server's depend on what sits there alone."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from scheduler.core.model.changes import Grant
from scheduler.core.model.cpu_memory_bounds import Needs
from scheduler.core.packing.draft import Seats


class CpuMemoryLedger(Protocol):
    """What the servers give to whom. Jobs are rows of one table for good."""

    @property
    def chooses(self) -> bool:
        """Return whether jobs may get another server than the one they were seated on."""

    def leave(self, row: int) -> None:
        """Take back what a job has."""

    def sit(self, started: Mapping[int, Seats], movable: Iterable[int], free: list[int]) -> dict[int, Grant]:
        """Give cores and memory to jobs that begin on seats; return what changed, for them and for others.

        Args:
            started: The seats, in the order in which they were taken.
            movable: Those of them that may get another server; then it is another in what is returned.
            free: (m,) GPUs by server that nobody sits on, the started ones seated.
        """


class ProportionalLedger:
    """Every GPU brings its share, or what the owner insists on: nobody's grant depends on anybody else."""

    def __init__(self, needs: Needs) -> None:
        self.chooses = False
        self._shares = [*zip(needs.cpus_share.tolist(), needs.memory_share.tolist(), strict=True)]
        # By row the cores and bytes that it insists on, and with them what such jobs get, by server and GPUs.
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
