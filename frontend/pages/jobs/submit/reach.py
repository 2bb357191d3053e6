"""What keeps a job apart from others where it could start: what its queue demands of servers, and what these give."""

from collections.abc import Collection

from scheduler.selectors.queues.isolation import QueueIsolation

CONFINED = frozenset({"landlock", "landlock-files"})


def reach_rows(queue: QueueIsolation, names: Collection[str]) -> list[tuple[str, str]]:
    """Return rows for the preview; of several servers the least that holds on all.

    Nothing is told of simulated servers, nor of a queue that demands nothing where there are no others.

    Args:
        queue: What the queue of the job demands, and the servers that meet it.
        names: Servers on which the job would start; empty where it would wait, so that it may start on any of them.
    """
    parts = [set(isolation.split("+")) for isolation in queue.of_servers(names)]
    if not parts and not queue.demands_any:
        return []
    demand = ("Its queue's jobs start", queue.where)
    return [demand, *_given_rows(parts)] if parts else [demand]


def _given_rows(parts: list[set[str]]) -> list[tuple[str, str]]:
    has_user = all("user" in each for each in parts)
    if all(CONFINED & each for each in parts):
        reads = "the system, Python, its own files, and folders that an admin opened"
        writes = "its own folders, shared memory, and folders that an admin opened"
    else:
        user = "the user of its queue" if has_user else "the user of the server's agent"
        reads = writes = f"all that {user} may"
    return [("Reads", reads), ("Writes", writes), ("Own user", "yes, one for its queue" if has_user else "no")]
