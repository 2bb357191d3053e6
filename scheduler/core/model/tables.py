"""The input of a round: jobs, servers, queues and placements as columns.

One numpy array a field, one row a job, server or queue. Rows refer to each other by row number, never by database id.
All arrays of a table have the same length; nothing here is changed after it is built.
"""

from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any, TypedDict

import numpy as np
import numpy.typing as npt

from scheduler.core.model.holds import After, ArrayLimit
from scheduler.core.model.profile import Profile
from scheduler.core.model.trial import Trial

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

NO_ROW = -1
# Between two rounds where a shell says nothing else, seconds.
DEFAULT_ROUND_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTable:
    """Jobs that a round may decide about, one row each.

    Attributes:
        job_id: (n,) unique numbers; the last sort key everywhere.
        queue: (n,) row in QueueTable.
        num_gpus: (n,) GPUs the gang needs, all or nothing.
        max_servers: (n,) most servers the gang may be spread over; 0 means any number.
        arrival_s: (n,) submission time, seconds.
        priority: (n,) larger goes first where a policy looks at it.
        preemptible: (n,) whether a running job may be stopped for one before it in the order. A queue that takes its
            quota back may stop it all the same, but stops such jobs last.
        attained_gpu_s: (n,) attained service since the last promotion, GPU-seconds.
        executed_s: (n,) time run since the last promotion, seconds.
        waited_s: (n,) time waited since it last ran, or since it was submitted, seconds; 0 for a running job.
        first_start_s: (n,) time of the first start; +inf when it has not started.
        remaining_s: (n,) remaining run time at its GPU-proportional share, seconds; +inf when unknown.
        demand_cpus: (n,) least cores for full speed, whole gang; +inf when unknown, then its GPU-proportional share.
        demand_memory_bytes: (n,) least memory for full speed, whole gang; +inf when unknown, as for the cores.
        min_cpus: (n,) cores without which it cannot start at all (a number the user gave), whole gang; 0 for none.
        min_memory_bytes: (n,) the same for memory.
        running: (n,) whether it holds GPUs now (states launching and running).
        held_at_s: (n,) time the present placement began; +inf when it holds none.
        unsaved_s: (n,) run time since its newest checkpoint, which a preemption may lose, seconds; 0 when not running.
        owner: (n,) number of the user it belongs to.
        weight: (n,) share of GPU time it gets beside its peers where time is sliced, > 0.
        total_s: (n,) whole run time at its GPU-proportional share with ``num_gpus``, seconds; +inf when unknown.
        sharers: (n,) mean number of active jobs since it arrived, itself included, >= 1.
        min_gpus: (n,) least GPUs it can run on; ``num_gpus`` for a rigid job.
        max_gpus: (n,) most GPUs it can use; ``num_gpus`` for a rigid job. Elastic jobs have ``min_gpus < max_gpus``.
        rate: (n,) useful work a second that it reports now, relative to its reference speed; NaN when not known.
        lent: (n,) whether it runs on GPUs that were lent to it (``core/round/shares/loans.py``): it has no share of
            its own.
        profile: (n,) row in ``profiles``, NO_ROW when nothing is known of it.
        profiles: Speed curves that jobs of the table share.
    """

    job_id: IntArray
    queue: IntArray
    num_gpus: IntArray
    max_servers: IntArray
    arrival_s: FloatArray
    priority: FloatArray
    preemptible: BoolArray
    attained_gpu_s: FloatArray
    executed_s: FloatArray
    waited_s: FloatArray
    first_start_s: FloatArray
    remaining_s: FloatArray
    demand_cpus: FloatArray
    demand_memory_bytes: FloatArray
    min_cpus: FloatArray
    min_memory_bytes: FloatArray
    running: BoolArray
    held_at_s: FloatArray
    unsaved_s: FloatArray
    owner: IntArray
    weight: FloatArray
    total_s: FloatArray
    sharers: FloatArray
    min_gpus: IntArray
    max_gpus: IntArray
    rate: FloatArray
    lent: BoolArray
    profile: IntArray
    profiles: tuple[Profile, ...] = ()

    def __len__(self) -> int:
        return len(self.job_id)


class OptionalColumns(TypedDict, total=False):
    """Columns of a JobTable that most rounds do not look at."""

    owner: IntArray
    weight: FloatArray
    total_s: FloatArray
    sharers: FloatArray
    min_gpus: IntArray
    max_gpus: IntArray
    rate: FloatArray
    lent: BoolArray
    profile: IntArray


def optional_columns(num_gpus: IntArray) -> OptionalColumns:
    """Return the optional columns as they are for rigid jobs of one owner of which nothing is known."""
    size = len(num_gpus)
    return {
        "owner": np.zeros(size, dtype=np.int64),
        "weight": np.ones(size),
        "total_s": np.full(size, np.inf),
        "sharers": np.ones(size),
        "min_gpus": num_gpus,
        "max_gpus": num_gpus,
        "rate": np.full(size, np.nan),
        "lent": np.zeros(size, dtype=np.bool_),
        "profile": np.full(size, NO_ROW, dtype=np.int64),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTable:
    """Servers that may be used in this round, one row each.

    Capacities are what the round may give: broken GPUs and what jobs outside the JobTable hold for good are already
    taken off.

    Attributes:
        server_id: (m,) unique numbers.
        num_gpus: (m,) healthy GPUs (or CPU slots).
        num_cpus: (m,) cores.
        memory_bytes: (m,) bytes.
        rack: (m,) number of the rack.
    """

    server_id: IntArray
    num_gpus: IntArray
    num_cpus: FloatArray
    memory_bytes: FloatArray
    rack: IntArray

    def __len__(self) -> int:
        return len(self.server_id)

    def at(self, rows: IntArray) -> "ServerTable":
        """Return these of the servers."""
        return ServerTable(**_rows_of(self, rows))


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueTable:
    """The tree of queues, one row each, parents before children.

    Attributes:
        queue_id: (k,) unique numbers.
        parent: (k,) row of the parent, NO_ROW for a root.
        quota_gpus: (k,) guaranteed GPUs.
        weight: (k,) share of idle quota it may borrow, relative to its siblings, > 0.
        may_borrow: (k,) whether it may hold more than its quota while others leave theirs idle.
        max_gpus: (k,) most GPUs it may ever hold, borrowing included.
        user_max_gpus: (k,) most GPUs that one user's jobs in the queue itself may hold; 0 for no limit. Without the
            column there are no limits.
    """

    queue_id: IntArray
    parent: IntArray
    quota_gpus: IntArray
    weight: FloatArray
    may_borrow: BoolArray
    max_gpus: IntArray
    user_max_gpus: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def __post_init__(self) -> None:
        """Fill the limits of users in where there are none."""
        if len(self.user_max_gpus) != len(self.queue_id):
            object.__setattr__(self, "user_max_gpus", np.zeros(len(self.queue_id), dtype=np.int64))

    def __len__(self) -> int:
        return len(self.queue_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placements:
    """GPUs held on servers, one row for each pair of job and server, sorted by job row, then server row.

    Attributes:
        job: (p,) row in JobTable.
        server: (p,) row in ServerTable.
        num_gpus: (p,) GPUs of the job on the server, > 0.
        cpus: (p,) cores of the job on the server.
        memory_bytes: (p,) bytes of the job on the server.
    """

    job: IntArray
    server: IntArray
    num_gpus: IntArray
    cpus: FloatArray
    memory_bytes: FloatArray

    def __len__(self) -> int:
        return len(self.job)

    def at(self, rows: IntArray | BoolArray) -> "Placements":
        """Return these of the placements."""
        return Placements(  # written out: rounds ask for it so often that names would cost time
            job=self.job[rows],
            server=self.server[rows],
            num_gpus=self.num_gpus[rows],
            cpus=self.cpus[rows],
            memory_bytes=self.memory_bytes[rows],
        )

    def on_servers(self, row: IntArray) -> "Placements":
        """Return the placements on the servers that ``row`` gives for each server row, sorted again."""
        server = row[self.server]
        return replace(self, server=server).at(seat_order(self.job, server))

    @staticmethod
    @cache
    def none() -> "Placements":
        """Return the empty table, shared since it cannot be changed."""
        ints = np.zeros(0, dtype=np.int64)
        floats = np.zeros(0, dtype=np.float64)
        return Placements(job=ints, server=ints, num_gpus=ints, cpus=floats, memory_bytes=floats)


def _rows_of(table: JobTable | ServerTable, rows: IntArray) -> dict[str, Any]:
    """Return some rows of all columns, by name."""
    names = (column.name for column in fields(table) if column.name != "profiles")
    return {name: getattr(table, name)[rows] for name in names}


def seat_order(job: IntArray, server: IntArray) -> IntArray:
    """Return the indexes that sort pairs (job, server), of rows or ids; quick where they are sorted already."""
    return np.argsort(job * (1 + int(server.max(initial=0))) + server, kind="stable")


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All that a round looks at.

    Attributes:
        now_s: The moment of the decision, seconds on the same scale as the job columns.
        held: What the running jobs of ``jobs`` hold now. Rows on servers or GPUs that are no longer offered are left
            out: a running job whose rows do not add up to its gang must leave (rule ``server_gone``).
        releasing: What jobs that are being stopped still hold; these jobs are not in ``jobs``, their capacity is in
            ``servers`` (it comes free soon), and the live shell waits for it before it launches on it.
            ``job`` is NO_ROW in every row.
        trials: What introspection remembers: the ``trials`` of the plan before.
        round_s: Seconds between two rounds when nothing happens: what ended less than so long ago ended since the last.
        avoids: Pairs of a job and a server that it stays off where there are others, by their ids, see ``avoided``.
        barred: Pairs of a queue and a server on which its jobs may not start, by their ids, see ``barred``.
        arrays: Arrays with a limit.
        after: Jobs that wait for others.
        prepared: Pairs of a job that needs a Python environment and the servers that have it, by their ids; it starts
            on these alone.
    """

    now_s: float
    jobs: JobTable
    servers: ServerTable
    queues: QueueTable
    held: Placements = field(default_factory=Placements.none)
    releasing: Placements = field(default_factory=Placements.none)
    trials: tuple[Trial, ...] = ()
    round_s: float = DEFAULT_ROUND_S
    avoids: tuple[tuple[int, int], ...] = ()
    barred: tuple[tuple[int, int], ...] = ()
    arrays: tuple[ArrayLimit, ...] = ()
    after: tuple[After, ...] = ()
    prepared: tuple[tuple[int, tuple[int, ...]], ...] = ()


def in_server_order(snapshot: Snapshot) -> tuple[Snapshot, IntArray]:
    """Return the snapshot with its servers ascending by id, and (m,) the row that each of them had before."""
    before = np.argsort(snapshot.servers.server_id, kind="stable")
    now = np.empty_like(before)
    now[before] = np.arange(len(before))
    ordered = replace(
        snapshot,
        servers=snapshot.servers.at(before),
        held=replace(snapshot.held, server=now[snapshot.held.server]),
        releasing=replace(snapshot.releasing, server=now[snapshot.releasing.server]),
    )
    return ordered, before


def only_jobs(snapshot: Snapshot, rows: IntArray) -> Snapshot:
    """Return the snapshot with these jobs alone, in this order."""
    jobs, held = snapshot.jobs, snapshot.held
    number = np.full(len(jobs), NO_ROW, dtype=np.int64)
    number[rows] = np.arange(len(rows))
    held = held.at(number[held.job] != NO_ROW)
    held = replace(held, job=number[held.job])
    return replace(snapshot, jobs=JobTable(**_rows_of(jobs, rows), profiles=jobs.profiles), held=held)
