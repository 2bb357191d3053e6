"""Cores and memory, kept from round to round by mechanisms under which a server's depend on what sits there alone."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from scheduler.core.changes import Grant
from scheduler.core.needs import Needs
from scheduler.core.packing.draft import Seats


class Shelf(Protocol):
    """What the servers give to whom. Jobs are rows of one table for good."""

    def leave(self, row: int) -> None:
        """Take back what a job has."""

    def sit(self, started: Mapping[int, Seats], movable: Iterable[int], free: list[int]) -> dict[int, Grant]:
        """Give cores and memory to jobs that begin on seats; return what changed, for them and for others.

        Args:
            started: The seats, in the order in which they were taken.
            movable: Those of them that may get another server; then it is another in what is returned.
            free: (m,) GPUs by server that nobody sits on, the started ones seated.
        """


class ShareShelf:
    """Every GPU brings its share, or what the owner insists on: nobody's grant depends on anybody else."""

    def __init__(self, needs: Needs) -> None:
        self._cpus_least: list[float] = needs.cpus_least.tolist()
        self._memory_least: list[float] = needs.memory_least.tolist()
        self._shares = [*zip(needs.cpus_share.tolist(), needs.memory_share.tolist(), strict=True)]

    def leave(self, row: int) -> None:
        """Do nothing: there is nothing to share out again."""

    def sit(self, started: Mapping[int, Seats], movable: Iterable[int], free: list[int]) -> dict[int, Grant]:
        """Return the grants of those that start."""
        grants: dict[int, Grant] = {}
        for row, seats in started.items():
            cpus_least, memory_least = self._cpus_least[row], self._memory_least[row]
            grant = []
            for server, gpus in sorted(seats):
                cpus, memory = self._shares[server]
                grant.append((server, gpus, gpus * max(cpus_least, cpus), gpus * max(memory_least, memory)))
            grants[row] = tuple(grant)
        return grants
