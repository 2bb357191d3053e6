"""The difference between what jobs hold and what a plan grants: starts, stops, changed cores and memory.

The simulator carries out changes instead of plans, and its plan hash is their digest.
"""

import hashlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from scheduler.core.model.plan import Plan
from scheduler.core.model.tables import Placements, seat_order

# What one job holds: (server row, GPUs, cores, bytes) for each server it uses, servers ascending.
Grant = tuple[tuple[int, int, float, float], ...]

# Parts of a digest: when, a job with its first server, each other server of it, two jobs.
_TIME, _JOB, _SEAT, _PAIR = (struct.Struct(form).pack for form in ("<d", "<cqqqdd", "<qqdd", "<qq"))


@dataclass(slots=True, kw_only=True)
class Changes:
    """Differences between what is held and what is granted; jobs are rows of the table that the round saw.

    Attributes:
        started: Jobs that begin on new seats, and what they hold; moved and resized jobs are in it too.
        amended: Jobs that keep their seats with other cores or memory.
        stopped: Jobs that leave their seats, with the rule and the job that takes them (NO_ROW for none).
        riding: Guests and their hosts from now on; None where that does not change.
        lent: Jobs that run on GPUs lent to them from now on. That alone changes nothing that is held.
    """

    started: dict[int, Grant] = field(default_factory=dict)
    amended: dict[int, Grant] = field(default_factory=dict)
    stopped: dict[int, tuple[str, int]] = field(default_factory=dict)
    riding: dict[int, int] | None = None
    lent: frozenset[int] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.started or self.amended or self.stopped) or self.riding is not None

    def digest(self, before: bytes, now_s: float) -> bytes:
        """Return a digest of these changes and of all before them."""
        parts = [before, _TIME(now_s)]
        for mark, grants in ((b"s", self.started), (b"a", self.amended)):
            for row in sorted(grants):
                grant = grants[row]
                parts.append(_JOB(mark, row, *grant[0]))
                if len(grant) > 1:
                    parts += [_SEAT(*seat) for seat in grant[1:]]
        for row in sorted(self.stopped):
            rule, by_row = self.stopped[row]
            parts += _PAIR(row, by_row), rule.encode()
        if self.riding:
            for pair in sorted(self.riding.items()):
                parts += b"r", _PAIR(*pair)
        return hashlib.sha256(b"".join(parts)).digest()


def changes_of(plan: Plan, held: Placements, *, num_jobs: int) -> Changes:
    """Return what the plan changes.

    Args:
        plan: The plan.
        held: What the jobs held before, sorted by job row, then server row.
        num_jobs: Rows of the table.
    """
    grants = plan.grants
    kept = np.zeros(num_jobs, dtype=np.bool_)
    kept[list(plan.kept)] = True
    still, kept_before = kept[grants.job], kept[held.job]
    changes = Changes(stopped={p.job: (str(p.rule), p.by_job) for p in plan.preemptions}, lent=plan.lent)
    changes.started = grants_of(grants.at(~still))
    differs = np.flatnonzero(still)[
        (grants.cpus[still] != held.cpus[kept_before]) | (grants.memory_bytes[still] != held.memory_bytes[kept_before])
    ]
    if len(differs):
        other = np.zeros(num_jobs, dtype=np.bool_)
        other[grants.job[differs]] = True
        changes.amended = grants_of(grants.at(other[grants.job]))
    return changes


def grants_of(held: Placements) -> dict[int, Grant]:
    """Return what each job holds; placements are sorted by job row, then server row."""
    columns = (held.job, held.server, held.num_gpus, held.cpus, held.memory_bytes)
    by_job: dict[int, Grant] = {}
    for job, *seat in zip(*(column.tolist() for column in columns), strict=True):
        by_job[job] = (*by_job.get(job, ()), tuple(seat))
    return by_job


def placements(grants: Mapping[int, Grant]) -> Placements:
    """Return grants as columns, sorted by job row, then server row."""
    rows = [(row, *seat) for row, grant in grants.items() for seat in grant]
    *whole, cpus, memory_bytes = np.array(rows, dtype=np.float64).reshape(-1, 5).T
    job, server, num_gpus = (column.astype(np.int64) for column in whole)
    held = Placements(job=job, server=server, num_gpus=num_gpus, cpus=cpus, memory_bytes=memory_bytes)
    return held.at(seat_order(job, server))
