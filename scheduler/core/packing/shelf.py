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
        self._grants: dict[tuple[int, int, float, float], Grant] = {}

    def leave(self, row: int) -> None:
        """Do nothing: there is nothing to share out again."""

    def sit(self, started: Mapping[int, Seats], movable: Iterable[int], free: list[int]) -> dict[int, Grant]:
        """Return the grants of those that start."""
        return {
            row: self._grant(row, *seats[0])
            if len(seats) == 1
            else tuple(self._grant(row, *seat)[0] for seat in sorted(seats))
            for row, seats in started.items()
        }

    def _grant(self, row: int, server: int, gpus: int) -> Grant:
        """Return what the job gets on one server."""
        cpus_least, memory_least = self._cpus_least[row], self._memory_least[row]
        key = (server, gpus, cpus_least, memory_least)
        grant = self._grants.get(key)
        if grant is None:
            cpus, memory = self._shares[server]
            grant = ((server, gpus, gpus * max(cpus_least, cpus), gpus * max(memory_least, memory)),)
            self._grants[key] = grant
        return grant
