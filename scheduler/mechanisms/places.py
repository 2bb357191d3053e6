"""The second linear program of Synergy's Opt: on which servers jobs get the cores and memory of the first."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from scheduler.core.model.cpu_memory_bounds import Needs
from scheduler.core.model.tables import NO_ROW, FloatArray
from scheduler.core.packing.draft import Draft

# Shares of a job on a server from which it counts as whole there.
_WHOLE = 1.0 - 1e-6
# Pairs of job and server up to which the program is worth its time (a tenth of a second).
_MOST_PAIRS = 4_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Fractions of jobs on servers.

    Attributes:
        on_server: (n, m) share of each job on each server; rows sum to 1.
    """

    on_server: FloatArray

    def whole(self) -> list[int]:
        """Return for each job the server it is on as a whole, NO_ROW where it is split."""
        at = self.on_server.argmax(axis=1)
        is_whole = self.on_server.max(axis=1) >= _WHOLE
        return [int(server) if whole else NO_ROW for server, whole in zip(at, is_whole, strict=True)]


def best_places(
    amounts: FloatArray, capacity: FloatArray, home: Sequence[int], *, time_limit_s: float
) -> Places | None:
    """Return where jobs go if they may be split, with as much of them as possible at home.

    Args:
        amounts: (n, r) what each job has of each resource.
        capacity: (m, r) what each server has to give.
        home: (n,) server at which each job is, or would be first.
        time_limit_s: When to give up.

    Returns:
        A vertex of the program, so that at most ``r * m`` jobs are split; None when there is none or time is up.

    Source: Mohan et al., "Synergy", OSDI 2022, appendix on Opt, second program. Differs: the released one asks for any
    solution; this one moves as little as possible.
    """
    import pulp  # here for the same reason as in programs.py

    num_jobs, num_servers = len(amounts), len(capacity)
    program = pulp.LpProblem("places", pulp.LpMaximize)
    on = [[program.add_variable(f"x{job}_{at}", 0, 1) for at in range(num_servers)] for job in range(num_jobs)]
    program += pulp.LpAffineExpression([(on[job][at], 1.0) for job, at in enumerate(home)])
    for job in range(num_jobs):
        program += pulp.LpAffineExpression([(x, 1.0) for x in on[job]]) == 1.0
    unit = np.maximum(capacity.max(axis=0), 1.0)
    scaled, limits = (amounts / unit).tolist(), (capacity / unit).tolist()
    for at in range(num_servers):
        for resource, limit in enumerate(limits[at]):
            program += (
                pulp.LpAffineExpression([(on[job][at], scaled[job][resource]) for job in range(num_jobs)]) <= limit
            )
    # The simplex method ends at a vertex; one thread, so that equal programs have equal solutions.
    program.solve(pulp.HiGHS(msg=False, threads=1, timeLimit=time_limit_s, solver="simplex"))
    if program.sol_status != pulp.LpSolutionOptimal:
        return None
    return Places(on_server=np.array([[x.value() for x in row] for row in on]))


def placed(draft: Draft, aims: Needs, *, time_limit_s: float) -> Draft:
    """Return the draft with the movable jobs where the program puts them; only split ones are still movable.

    The draft as it was where the program is too large, has no solution, or leaves no server for a split gang.
    """
    movable = [row for row in draft.seats if row in draft.movable]
    # Where users insist on cores, a split gang may find GPUs but no cores: the seats of the draft are known to fit.
    if draft.needs.tight or not movable or len(movable) * len(draft.servers) > _MOST_PAIRS:
        return draft
    places = best_places(
        _amounts(draft, aims, movable),
        _left(draft, aims),
        [draft.seats[row][0][0] for row in movable],
        time_limit_s=time_limit_s,
    )
    if places is None:
        return draft
    seats, room, gpus = dict(draft.seats), list(draft.room), draft.jobs.num_gpus.tolist()
    split = []
    for row, server in zip(movable, places.whole(), strict=True):
        if server == NO_ROW:
            split.append(row)
        else:
            seats[row] = ((server, gpus[row]),)
            room[server] -= gpus[row]
    left = room[:]
    for row in sorted(split, key=lambda row: -gpus[row]):
        fitting = [server for server, free in enumerate(left) if free >= gpus[row]]
        if not fitting:
            return draft
        server = min(fitting, key=left.__getitem__)
        seats[row] = ((server, gpus[row]),)
        left[server] -= gpus[row]
    return replace(draft, seats=seats, movable=frozenset(split), room=tuple(room))


def _amounts(draft: Draft, aims: Needs, rows: Sequence[int]) -> FloatArray:
    """Return (n, 3) GPUs, cores and bytes that jobs aim at; unknown ones at the largest share of a server."""
    gpus = draft.jobs.num_gpus[rows].astype(np.float64)
    cpus = np.where(np.isinf(aims.cpus_most[rows]), aims.cpus_share.max(), aims.cpus_most[rows])
    memory = np.where(np.isinf(aims.memory_most[rows]), aims.memory_share.max(), aims.memory_most[rows])
    return np.stack((gpus, gpus * cpus, gpus * memory), axis=1)


def _left(draft: Draft, aims: Needs) -> FloatArray:
    """Return (m, 3) GPUs, cores and bytes that the jobs which stay leave to the others."""
    servers = draft.servers
    left = np.stack((np.array(draft.room, dtype=np.float64), servers.num_cpus, servers.memory_bytes), axis=1)
    stay = [row for row in draft.seats if row not in draft.movable]
    for row, amounts in zip(stay, _amounts(draft, aims, stay), strict=True):
        for server, gpus in draft.seats[row]:
            left[server, 1:] -= amounts[1:] * gpus / draft.jobs.num_gpus[row]
    return np.maximum(left, 0.0)
