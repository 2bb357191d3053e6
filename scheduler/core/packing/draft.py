"""What a walk hands to a mechanism: which jobs run on which servers, and which of them it may still move."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain

import numpy as np

from scheduler.core.model.cpu_memory_bounds import Needs
from scheduler.core.model.tables import IntArray, JobTable, ServerTable

# One gang's place: (server, GPUs on it) for each server it uses.
Seats = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """Gangs with their GPUs, before cores and memory are given.

    Attributes:
        jobs: All jobs of the snapshot.
        servers: All servers, ascending by id.
        needs: Bounds on cores and memory of every job.
        seats: Where each granted job sits, by job row, in the order of the policy. They fit together.
        movable: Jobs of ``seats`` on one server that start in this round and displaced no job; a mechanism may seat
            them on another server of ``room`` as long as all of them keep a place. For a mechanism that places
            all jobs anew, running jobs are among them; one that gets another server is stopped and starts there.
        room: (m,) GPUs by server that the movable jobs may use: their own and the free ones.
    """

    jobs: JobTable
    servers: ServerTable
    needs: Needs
    seats: Mapping[int, Seats]
    movable: frozenset[int]
    room: tuple[int, ...]


def seat_rows(seats: Mapping[int, Seats]) -> tuple[IntArray, IntArray, IntArray]:
    """Return seats as columns (job row, server row, GPUs)."""
    num_seats = np.fromiter(map(len, seats.values()), dtype=np.int64, count=len(seats))
    job = np.repeat(np.fromiter(seats, dtype=np.int64, count=len(seats)), num_seats)
    flat = chain.from_iterable(chain.from_iterable(seats.values()))
    pairs = np.fromiter(flat, dtype=np.int64, count=2 * len(job)).reshape(-1, 2)
    return job, pairs[:, 0], pairs[:, 1]
