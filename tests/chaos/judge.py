"""What a chaos run must not have found: in the logs of its jobs, in what its users were answered, in its database.

The invariants of the database are those of ``tests/faults``, asked in the same SQL of a product that runs: what holds
after every commit at each look, what the events of jobs make of them at the end.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from scheduler.core.model.lifecycle import TRANSITIONS, JobState
from tests.faults.checkers import QUERIES, SERVERS

Json = dict[str, Any]
Rows = list[tuple[Any, ...]]

# (checker, what was found, query that finds nothing), beside those of ``tests/faults``, which knows its servers' sizes.
OF_REAL_SERVERS = (
    (
        "L2",
        "more is leased than the server has",
        """
        SELECT s.name, SUM(l.cpus), SUM(l.memory_bytes), SUM(l.num_gpus)
        FROM scheduler_lease l JOIN scheduler_server s ON s.id = l.server_id
        WHERE l.closed_at IS NULL GROUP BY s.id, s.name, s.num_cpus, s.memory_bytes
        HAVING SUM(l.cpus) > s.num_cpus + 0.000001 OR SUM(l.memory_bytes) > s.memory_bytes
            OR SUM(l.num_gpus) > (SELECT COUNT(*) FROM scheduler_gpu g WHERE g.server_id = s.id)""",
    ),
    (
        "T1",
        "a report met a defect",
        """
        SELECT kind, data FROM scheduler_event WHERE (kind = 'report_unusable' AND reason = 'defect')
            OR (kind = 'report_rejected' AND CAST(data AS TEXT) LIKE '%inconsistent%')""",
    ),
)
JOBS = "SELECT id, number, state FROM scheduler_job"
EVENTS = """
    SELECT job_id, number, kind, old_state, new_state FROM scheduler_event
    WHERE job_id IS NOT NULL ORDER BY job_id, number"""
# A round that met the loss of a server grants it all the same; the next look at lost servers, a second later, ends it.
SETTLES, SETTLE_S = ("L4",), 5.0
EMPTY = ("lost", "doubled", "not_ended", "not_completed", "twice_at_once", "left_over")
ZERO = ("again_before_a_sure_checkpoint", "missing_of_completed")


class Invariants:
    """S1, L1 to L4, G1 and T1 of docs/reliability.md, asked of one database again and again.

    Attributes:
        looks: How often all of them were asked.
        broken: What was found.
    """

    def __init__(self, says: Callable[[str], Rows], *, wait: Callable[[float], object] = time.sleep) -> None:
        self.looks = 0
        self.broken: list[str] = []
        self._says, self._wait = says, wait
        self._newest: dict[str, tuple[int, int, tuple[int, int]]] = {}

    def look(self) -> None:
        """Ask what holds after every commit."""
        for checker, what, query in (*QUERIES, *OF_REAL_SERVERS):
            found = self._says(query)
            if found and checker in SETTLES:
                self._wait(SETTLE_S)
                still = self._says(query)
                found = [row for row in found if row in still]
            if found:
                self.broken.append(f"{checker}: {what}: {found}")
        self._rise()
        self.looks += 1

    def _rise(self) -> None:
        """G1: generation, acknowledged generation and newest report of a server only rise."""
        for pk, generation, acked, epoch, sequence in self._says(SERVERS):
            now = (generation, acked, (epoch, sequence))
            before = self._newest.get(pk, now)
            if any(new < old for new, old in zip(now, before, strict=True)):
                self.broken.append(f"G1: {pk}: {before} -> {now}")
            self._newest[pk] = now

    def finish(self) -> None:
        """Look once more, and ask what the events of every job make of it."""
        self.look()
        self.broken += [f"S1: {what}" for what in folded(self._says(JOBS), self._says(EVENTS))]


def folded(jobs: Iterable[tuple[Any, ...]], events: Iterable[tuple[Any, ...]]) -> list[str]:
    """Return the jobs whose state is not what their events make of it, over allowed moves, numbered without gaps."""
    by_job: dict[str, Rows] = defaultdict(list)
    for job_id, *event in events:
        by_job[job_id].append(tuple(event))
    broken = []
    for pk, number, state in jobs:
        own = by_job[pk]
        if [event[0] for event in own] != list(range(1, len(own) + 1)):
            broken.append(f"job {number} has the events {[event[0] for event in own]}")
        moves = [(old, new) for _, kind, old, new in own if kind == "job_state"]
        now = moves[0][1] if moves else ""
        for old, new in moves[1:]:
            if old != now or JobState(new) not in TRANSITIONS[JobState(now)]:
                broken.append(f"job {number}: {now}, then {old} -> {new}")
            now = new
        if now != state:
            broken.append(f"job {number} is {state}, its events make it {now or 'nothing'}")
    return broken


def violations(found: Json) -> list[str]:
    """Return what must not have happened, by the result of a run."""
    broken = [name for name in EMPTY if found[name]]
    broken += [name for name in ZERO if found["steps"][name]]
    broken += found["invariants"]["broken"]
    if not found["invariants"]["looks"]:
        broken.append("database_not_asked")
    if not found["jobs"]["states"].get("completed"):
        broken.append("nothing_completed")  # then the others prove nothing
    return broken
