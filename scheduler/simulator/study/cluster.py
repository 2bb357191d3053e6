"""The cluster of a simulation: groups of alike servers, and a tree of queues, from options or from a file."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.core.model.tables import NO_ROW, QueueTable, ServerTable
from scheduler.core.spec.units import counted

GB = 10**9
# A mistyped count must not fill the memory.
MOST_SERVERS = 100_000
# The maximum of a queue that has none, as a multiple of the cluster: more than waiting jobs ever ask for.
_OUT_OF_REACH = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerGroup:
    """Servers that are alike.

    Attributes:
        count: Servers in the group.
        gpus: GPUs of each.
        cpus: Cores of each.
        memory_bytes: Memory of each.
        rack: Number of their rack; None to have them spread over the racks of the cluster.
    """

    count: int
    gpus: int
    cpus: float
    memory_bytes: float
    rack: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSpec:
    """One queue.

    Attributes:
        name: Its name, as a trace says it.
        parent: Name of the queue above it; None for a root.
        quota_gpus: Guaranteed GPUs.
        weight: Share of idle quota it may borrow, beside its siblings.
        may_borrow: Whether it may hold more than its quota.
        max_gpus: Most GPUs it may ever hold; None for all.
    """

    name: str
    parent: str | None = None
    quota_gpus: int = 0
    weight: float = 1.0
    may_borrow: bool = True
    max_gpus: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Servers and queues.

    Attributes:
        groups: The servers.
        racks: Racks over which servers without a rack of their own are spread, in order and evenly.
        queues: The queues; parents before children. Empty when they are to follow from the trace.
    """

    groups: tuple[ServerGroup, ...]
    racks: int = 1
    queues: tuple[QueueSpec, ...] = ()

    @property
    def num_servers(self) -> int:
        """Return the number of servers."""
        return sum(group.count for group in self.groups)

    @property
    def num_gpus(self) -> int:
        """Return the GPUs of all servers."""
        return sum(group.count * group.gpus for group in self.groups)

    def describe(self) -> str:
        """Return the cluster in one line: ``16 servers x (8 GPUs, 24 cores, 500 GB)``."""
        return " + ".join(
            f"{counted(group.count, 'server')} x "
            f"({counted(group.gpus, 'GPU')}, {group.cpus:g} {'core' if group.cpus == 1 else 'cores'}, "
            f"{group.memory_bytes / GB:g} GB)"
            for group in self.groups
        )


def server_table(cluster: Cluster) -> ServerTable:
    """Return the servers as columns, numbered in the order of the groups."""
    groups = [group for group in cluster.groups for _ in range(group.count)]
    size = len(groups)
    racks = [index * cluster.racks // size if group.rack is None else group.rack for index, group in enumerate(groups)]
    return ServerTable(
        server_id=np.arange(size, dtype=np.int64),
        num_gpus=np.array([group.gpus for group in groups], dtype=np.int64),
        num_cpus=np.array([group.cpus for group in groups], dtype=np.float64),
        memory_bytes=np.array([group.memory_bytes for group in groups], dtype=np.float64),
        rack=np.array(racks, dtype=np.int64),
    )


def queue_table(queues: Sequence[QueueSpec], *, cluster_gpus: int) -> QueueTable:
    """Return the queues as columns, in their order.

    A queue without a maximum gets one that it never reaches: else a queue that holds the whole cluster would be told
    that it may not have more, instead of that there is no more.
    """
    row_of = {queue.name: row for row, queue in enumerate(queues)}
    parents = [NO_ROW if queue.parent is None else row_of[queue.parent] for queue in queues]
    most = [_OUT_OF_REACH * cluster_gpus if queue.max_gpus is None else queue.max_gpus for queue in queues]
    return QueueTable(
        queue_id=np.arange(len(queues), dtype=np.int64),
        parent=np.array(parents, dtype=np.int64),
        quota_gpus=np.array([queue.quota_gpus for queue in queues], dtype=np.int64),
        weight=np.array([queue.weight for queue in queues], dtype=np.float64),
        may_borrow=np.array([queue.may_borrow for queue in queues], dtype=np.bool_),
        max_gpus=np.array(most, dtype=np.int64),
    )
