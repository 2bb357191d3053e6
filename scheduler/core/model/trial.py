"""The memory of introspection: every change it tried on running jobs, and whether it helped.

The rows are part of the snapshot and of the plan, so a restart forgets nothing and a round stays a pure function.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class TrialKind(StrEnum):
    """Kinds of trials and notes."""

    SLICE = "slice"  # the quantum that runs now, and where each job stands in the round robin
    ALONE = "alone"  # how fast jobs were with their GPUs for themselves
    PACK = "pack"  # two jobs share the same GPUs
    MOVE = "move"  # a job was moved to other servers
    GROW = "grow"  # a job has more GPUs than it asked for
    IDLE = "idle"  # servers with idle GPUs that no job waits for, and since when


# Rows that only note something; they are no changes that could be taken back.
NOTES = frozenset({TrialKind.SLICE, TrialKind.ALONE, TrialKind.IDLE})


class Verdict(StrEnum):
    """State of a trial."""

    TRYING = "trying"  # done, and measured until ``until_s``; no other trial begins on its servers
    KEPT = "kept"  # measured better, in force; looked at again at ``until_s``
    UNDONE = "undone"  # measured worse, taken back; not tried again before ``until_s``


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One row of memory. Jobs and servers are named by id, because rows differ from round to round.

    Attributes:
        kind: What it is about.
        jobs: Job ids: (host, guest) of a pack, the job of a move or growth, all jobs of the round robin.
        servers: Server ids: of the trial; for a round robin the home of each job, -1 for none.
        values: Numbers by job or server: useful work a second before the trial; for a round robin the virtual time at
            which each job joined; for idle servers the time since when.
        began_s: When it began.
        until_s: When it is looked at next.
        verdict: How it stands.
    """

    kind: TrialKind
    jobs: tuple[int, ...] = ()
    servers: tuple[int, ...] = ()
    values: tuple[float, ...] = ()
    began_s: float
    until_s: float
    verdict: Verdict = Verdict.KEPT


def busy_servers(trials: Iterable[Trial]) -> set[int]:
    """Return the servers on which something is measured: a second change there would spoil it."""
    return {server for trial in trials if trial.verdict is Verdict.TRYING for server in trial.servers}
