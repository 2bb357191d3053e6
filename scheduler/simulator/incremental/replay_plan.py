"""Which planner a replay gets, and one that holds two against each other."""

from scheduler.core.model.changes import Changes
from scheduler.core.model.errors import PlanInvariantError
from scheduler.core.model.tables import QueueTable, ServerTable
from scheduler.core.round.config import SchedulerConfig
from scheduler.simulator.incremental.planner import Planner
from scheduler.simulator.incremental.queue_rounds import queue_rounds
from scheduler.simulator.incremental.share_rounds import share_rounds
from scheduler.simulator.incremental.single_queue_rounds import single_queue_rounds
from scheduler.simulator.incremental.whole_rounds import WholeRounds
from scheduler.simulator.state.columns import Columns
from scheduler.simulator.state.world import World


class Compared:
    """Rounds from what changed, each of them planned from scratch as well."""

    def __init__(self, short: Planner, whole: WholeRounds) -> None:
        self._short, self._whole = short, whole

    @property
    def unsettled(self) -> bool:
        """Return whether the next round may change something although nothing arrives or ends before it."""
        return self._short.unsettled

    def plan(self, world: World) -> Changes:
        """Return what the round changes.

        Raises:
            PlanInvariantError: If the two plans differ, which is a defect.
        """
        changes, expected = self._short.plan(world), self._whole.plan(world)
        if changes != expected:
            raise PlanInvariantError(f"a short round at {world.now_s} s gives {changes}, a whole one {expected}")
        return changes

    def rests_s(self, world: World) -> float:
        """Return for how long nothing changes by itself, seconds."""
        return self._short.rests_s(world)

    def restore(self, world: World) -> None:
        """Take up a state."""
        self._short.restore(world)


def planner_of(
    columns: Columns, servers: ServerTable, queues: QueueTable, config: SchedulerConfig, *, whole: WholeRounds,
    interrupted: bool, compared: bool,
) -> Planner:  # fmt: skip
    """Return what makes rounds from what changed, or ``whole`` where that cannot be done.

    Args:
        columns, servers, queues, config: As of the replay.
        whole: Makes rounds from scratch.
        interrupted: Whether the state is saved or taken up, which shares made from what changed do not stand.
        compared: Whether every planned round is planned from scratch as well.
    """
    if queues.user_max_gpus.any():
        return whole
    what = (columns, servers, queues, config)
    short: Planner | None = single_queue_rounds(*what)
    if short is None and not interrupted:
        short = share_rounds(*what)
    if short is None:
        short = queue_rounds(*what)
    if short is None:
        return whole
    return Compared(short, whole) if compared else short
