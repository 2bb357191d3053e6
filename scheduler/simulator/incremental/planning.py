"""Planners: what turns the state of the simulated cluster into the changes of one round.

``WholeRounds`` asks ``plan_round`` every time and serves every configuration.
"""

import math
from collections.abc import Mapping
from typing import Protocol

import numpy as np

from scheduler.core.model.changes import Changes, Grant, changes_of
from scheduler.core.model.plan import Plan, PreemptRule, WaitReason
from scheduler.core.model.tables import IntArray, JobTable, Placements, QueueTable, ServerTable, Snapshot, seat_order
from scheduler.core.packing.cpu_memory_ledger import CpuMemoryLedger
from scheduler.core.round.capabilities import ChangesBySelf, Promotes
from scheduler.core.round.config import SchedulerConfig, SharePolicy
from scheduler.core.round.plan_round import plan_round
from scheduler.simulator.incremental.overtaking import Overtaking
from scheduler.simulator.incremental.single_queue_walk import Moves, SingleQueueWalk
from scheduler.simulator.state.columns import Columns
from scheduler.simulator.state.world import World


class Planner(Protocol):
    """Decides the rounds of a replay.

    Attributes:
        unsettled: Whether the next round may change something although nothing arrives or ends before it.
    """

    @property
    def unsettled(self) -> bool:
        """See above."""

    def plan(self, world: World) -> Changes:
        """Return what the round changes; its jobs are rows of the workload. ``world`` is not touched."""

    def rests_s(self, world: World) -> float:
        """Return for how long nothing changes by itself, seconds; +inf for until something arrives or ends."""

    def restore(self, world: World) -> None:
        """Take up a state: ``world`` has the seats, and those who wait as arrived."""


def promote(columns: Columns, rows: IntArray, now_s: float) -> None:
    """Let jobs begin again at the top of a feedback queue."""
    for row in rows.tolist():
        columns.settle(row, now_s)
    for column in (columns.attained_gpu_s, columns.executed_s, columns.waited_s):
        column[rows] = 0.0


def granted(moves: Moves, walk: SingleQueueWalk, ledger: CpuMemoryLedger) -> Changes:
    """Return the moves with cores and memory, and whose differ now."""
    started = moves.started
    for row in moves.displaced:
        ledger.leave(row)
    stopped = {row: (_BY_ORDER, by_row) for row, by_row in moves.displaced.items()}
    grants = ledger.sit(started, moves.on_free, walk.space.free)
    if ledger.chooses:
        alone = [row for row in moves.on_free if len(started[row]) == 1]
        elsewhere = {row: grants[row][0] for row in alone if grants[row][0][0] != started[row][0][0]}
        if elsewhere:
            walk.reseat({row: ((server, gpus),) for row, (server, gpus, _, _) in elsewhere.items()})
    if len(grants) == len(started):
        return Changes(started=grants, stopped=stopped)
    return Changes(
        started={row: grant for row, grant in grants.items() if row in started},
        amended={row: grant for row, grant in grants.items() if row not in started},
        stopped=stopped,
    )


_BY_ORDER = str(PreemptRule.POLICY_ORDER)


def amend_overdue(changes: Changes, overdue: Mapping[int, Grant], world: World) -> None:
    """Give running jobs what neighbours left them that ended after the last round before a state was taken up."""
    left = {
        row: grant
        for row, grant in overdue.items()
        if row in world.seats and row not in changes.started and row not in changes.stopped
    }
    amended = left | changes.amended
    changes.amended = {row: grant for row, grant in amended.items() if grant != world.seats[row]}


# Times are sums of floats: a moment that is missed by dust is looked at again this much later.
DUST_S = 1e-3


def until_rights_change_s(config: SchedulerConfig, jobs: JobTable, now_s: float) -> float:
    """Return when the order may stop one more job, or a queue take its quota back for one, seconds from now."""
    rests_s = math.inf
    if config.min_run_s > 0 and math.isfinite(config.min_run_s):
        left_s = jobs.held_at_s + config.min_run_s - now_s
        rests_s = float(left_s.min(initial=math.inf, where=left_s > 0))
    if config.reclaim_after_s > 0 and math.isfinite(config.reclaim_after_s):
        left_s = config.reclaim_after_s - jobs.waited_s
        rests_s = min(rests_s, float(left_s.min(initial=math.inf, where=~jobs.running & (left_s > 0))))
    return max(rests_s, DUST_S)


class WholeRounds:
    """Every round from scratch.

    Attributes:
        unsettled: As of a ``Planner``.
        waiting: Who waits after the last round, rows of the workload, and why.
    """

    def __init__(self, servers: ServerTable, queues: QueueTable, config: SchedulerConfig) -> None:
        self.unsettled = False
        # What a share policy gives may depend on anything, unless it says when it decides otherwise.
        self._drifts = isinstance(config.policy, SharePolicy) and not isinstance(config.policy, ChangesBySelf)
        self._servers, self._queues, self._config = servers, queues, config
        self._overtaking = Overtaking(config.policy, servers, queues)
        self._trials: Plan | None = None
        self._riding: dict[int, int] = {}
        self.waiting: list[tuple[int, WaitReason]] = []

    def plan(self, world: World) -> Changes:
        """Return what the round changes."""
        config, columns, now_s = self._config, world.columns, world.now_s
        rows = columns.active
        if isinstance(config.policy, Promotes):
            promote(columns, rows[config.policy.promoted(columns.look(rows, now_s))], now_s)
        world.arrived.clear()
        world.released.clear()
        held = held_of(world.seats)
        snapshot = Snapshot(
            now_s=now_s,
            jobs=columns.table(rows, now_s),
            servers=self._servers,
            queues=self._queues,
            held=renumbered(held, np.searchsorted(rows, held.job)),
            trials=self._trials.trials if self._trials else (),
            round_s=world.round_s,
        )
        self._trials = plan = plan_round(snapshot, config)
        changes = changes_of(plan, snapshot.held, num_jobs=len(rows))
        number: list[int] = rows.tolist()
        self.waiting = [
            (number[row], reason)
            for row, (reason, _) in zip(plan.waiting.job.tolist(), plan.waiting.causes, strict=True)
        ]
        riding = {number[guest]: number[host] for guest, host in plan.riding.items()}
        before, self._riding = self._riding, riding
        # Who was started or stopped stands elsewhere in the order now, and a queue holds more or less.
        self.unsettled = bool(changes.started or changes.stopped) or (self._drifts and bool(world.seats))
        return Changes(
            started={number[row]: grant for row, grant in changes.started.items()},
            amended={number[row]: grant for row, grant in changes.amended.items()},
            stopped={number[row]: (rule, number[by] if by >= 0 else by) for row, (rule, by) in changes.stopped.items()},
            riding=None if riding == before else riding,
            lent=frozenset(number[row] for row in changes.lent),
        )

    def rests_s(self, world: World) -> float:
        """Return for how long the order of the policy and the kinds of the locality stay as they are, seconds."""
        config, columns = self._config, world.columns
        jobs = columns.look(columns.active, world.now_s)
        rests_s = self._trials.again_at_s - world.now_s if self._trials else math.inf
        if self.waiting:
            rests_s = min(rests_s, until_rights_change_s(config, jobs, world.now_s))
            rests_s = min(rests_s, self._overtaking.after_s(world) if world.seats else math.inf)
        # While nobody runs although somebody waits, who comes first makes no difference.
        for part in (config.policy, config.locality) if world.seats else (config.locality,):
            if isinstance(part, ChangesBySelf):
                rests_s = min(rests_s, float(part.next_change_s(jobs).min(initial=np.inf)))
        return rests_s

    def restore(self, world: World) -> None:
        """Nothing is kept from round to round that a state holds."""


def held_of(seats: dict[int, Grant]) -> Placements:
    """Return seats as columns, sorted by job, then server."""
    rows = [(row, *seat) for row, grant in seats.items() for seat in grant]
    table = np.array(rows, dtype=np.float64).reshape(-1, 5).T
    job, server = table[0].astype(np.int64), table[1].astype(np.int64)
    by_job = seat_order(job, server)
    return Placements(
        job=job[by_job],
        server=server[by_job],
        num_gpus=table[2].astype(np.int64)[by_job],
        cpus=table[3][by_job],
        memory_bytes=table[4][by_job],
    )


def renumbered(held: Placements, job: IntArray) -> Placements:
    """Return the placements with other job rows."""
    return Placements(
        job=job, server=held.server, num_gpus=held.num_gpus, cpus=held.cpus, memory_bytes=held.memory_bytes
    )
