"""Reads how far apart servers must keep jobs for those of a queue to start there, and which servers do."""

from collections.abc import Collection
from dataclasses import dataclass

from agents.protocol.isolation import LEVEL_MEANING, LEVELS, NONE, isolation_level
from scheduler.models import Queue, Server
from scheduler.models.server import ServerState


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueIsolation:
    """What a queue demands, and the servers that are up.

    Attributes:
        demand: One of ``LEVELS``: the most of its own and those above it.
        num_up: Servers that are up.
        num_open: Those of them that meet the demand.
        given: ``Server.isolation`` of those that meet it, by name of the server; simulated ones are left out, since
            nothing runs there.
    """

    demand: str
    num_up: int
    num_open: int
    given: dict[str, str]

    @property
    def demands_any(self) -> bool:
        """Return whether it demands anything at all."""
        return self.demand != NONE

    @property
    def is_met(self) -> bool:
        """Return whether jobs could start: false where all servers that are up are barred to them."""
        return self.num_open > 0 or self.num_up == 0

    @property
    def where(self) -> str:
        """Return where jobs of the queue start, and on how many servers that is: the rest of a sentence."""
        where = f"only {LEVEL_MEANING[self.demand]}" if self.demands_any else "on every server that takes jobs"
        if self.num_open == self.num_up:
            return where
        of_up = f"{self.num_open} of {self.num_up} servers that are" if self.num_open else "no server that is"
        return f"{where}: on {of_up} up"

    def of_servers(self, names: Collection[str]) -> list[str]:
        """Return what keeps jobs apart on these servers; for none, on all on which a job of the queue may start."""
        return [isolation for name, isolation in self.given.items() if not names or name in names]


def queue_isolation(queue: Queue) -> QueueIsolation:
    """Return what a queue demands of servers, and the servers that meet it."""
    demand = queue_demands()[queue.pk]
    up = list(Server.objects.filter(state=ServerState.UP).only("name", "isolation", "agent_version").order_by("number"))
    meets = [server for server in up if level_given(server) >= demand]
    return QueueIsolation(
        demand=LEVELS[demand],
        num_up=len(up),
        num_open=len(meets),
        given={server.name: server.isolation for server in meets if not server.is_simulated},
    )


def queue_demands() -> dict[int, int]:
    """Return what each queue demands, as a place in ``LEVELS``: the most of its own and those above it."""
    rows = Queue.objects.values_list("pk", "parent", "isolation")
    own = {pk: (parent, LEVELS.index(asked)) for pk, parent, asked in rows}
    found: dict[int, int] = {}
    for queue in own:
        above, found[queue] = own[queue]
        while above is not None:
            above, asked = own[above]
            found[queue] = max(found[queue], asked)
    return found


def level_given(server: Server) -> int:
    """Return how well a server keeps jobs apart, as a place in ``LEVELS``: nothing runs on a simulated one."""
    return len(LEVELS) if server.is_simulated else isolation_level(server.isolation)
