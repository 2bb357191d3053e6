"""What a locality is: which sets of servers a gang may use, and which it prefers.

The localities themselves stand in ``scheduler/placement``; packing asks them for seats.
"""

from typing import ClassVar, Protocol, runtime_checkable

from scheduler.core.model.tables import FloatArray, JobTable
from scheduler.core.packing.draft import Seats
from scheduler.core.packing.free_gpus import Gang, FreeGpus


class Locality(Protocol):
    """Which sets of servers a gang may use, and which it prefers. One file in ``scheduler/placement``."""

    name: ClassVar[str]

    def kinds(self, jobs: JobTable, now_s: float) -> tuple[FloatArray, ...]:
        """Return (n,) columns with all that ``seats`` looks at beside the size, such as a level of relaxation.

        Jobs of the same size whose columns are equal are treated alike: what one cannot get, no other can. Unless the
        locality is one that ``ChangesBySelf``, the columns of a job never change.
        """

    def seats(self, space: FreeGpus, gang: Gang) -> Seats:
        """Return where the gang goes in ``space``; empty when no allowed set has room. Less space never helps."""


@runtime_checkable
class LooksAtSizes(Protocol):
    """A locality that looks at the sizes of the gangs that sit on a server (``FreeGpus.sizes``)."""

    looks_at_sizes: ClassVar[bool]


@runtime_checkable
class Binds(Protocol):
    """A locality that has reasons of its own for where some jobs sit."""

    def home_of(self, job_id: int) -> int:
        """Return the row of the server on which the job costs least to start, NO_ROW where all cost the same."""

    def binds(self, job_id: int, seats: Seats) -> bool:
        """Return whether a mechanism, which knows nothing of the reason, has to leave the job on these servers."""
