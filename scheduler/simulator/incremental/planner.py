"""What a planner is: it turns the state of the simulated cluster into the changes of one round.

With what several planners share. ``replay_plan`` chooses the planner of a replay.
"""

import math
from typing import Protocol

from scheduler.core.model.changes import Changes, Grant
from scheduler.core.model.plan import PreemptRule
from scheduler.core.model.tables import IntArray, JobTable
from scheduler.core.packing.cpu_memory_ledger import CpuMemoryLedger
from scheduler.core.round.capabilities import RESET_BY_PROMOTION
from scheduler.core.round.config import SchedulerConfig
from scheduler.simulator.incremental.walks.single_queue_walk import Moves, SingleQueueWalk
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
        """Go on from a state: ``world`` has the seats, and waiting jobs as arrived."""


def promote(columns: Columns, rows: IntArray, now_s: float) -> None:
    """Move jobs to the top of a feedback queue."""
    for row in rows.tolist():
        columns.settle(row, now_s)
    for name in RESET_BY_PROMOTION:
        getattr(columns, name)[rows] = 0.0


def granted(moves: Moves, walk: SingleQueueWalk, ledger: CpuMemoryLedger) -> Changes:
    """Return the moves with cores and memory, and the jobs whose cores or memory differ now."""
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


def amend_overdue(changes: Changes, overdue: dict[int, Grant], world: World) -> None:
    """Give running jobs the cores and memory of neighbours that ended between the last round and the saved state.

    That is done once: nothing is overdue afterwards.
    """
    if not overdue:
        return
    left = {
        row: grant
        for row, grant in overdue.items()
        if row in world.seats and row not in changes.started and row not in changes.stopped
    }
    amended = left | changes.amended
    changes.amended = {row: grant for row, grant in amended.items() if grant != world.seats[row]}
    overdue.clear()


# Times are sums of floats: a round that comes too early by rounding errors is repeated this much later.
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
