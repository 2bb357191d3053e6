"""Choose how the rounds of a replay are planned: the fastest planner that gives the plans of ``plan_round``.

Each incremental planner says why it does not apply; where none does, every round is planned from scratch.
"""

from collections.abc import Callable

from scheduler.core.model.tables import Placements, QueueTable, ServerTable
from scheduler.core.round.config import SchedulerConfig
from scheduler.simulator.incremental.moving_order_rounds import moving_order_rounds
from scheduler.simulator.incremental.planner import Planner
from scheduler.simulator.incremental.planner_input import PlannerInput, planner_input
from scheduler.simulator.incremental.queue_rounds import queue_rounds
from scheduler.simulator.incremental.share_rounds import share_rounds
from scheduler.simulator.incremental.single_queue_rounds import single_queue_rounds
from scheduler.simulator.incremental.whole_rounds import WholeRounds
from scheduler.simulator.state.columns import Columns

# By name, the fastest first: the planner, and what a round of it looks at.
_PLANNERS: dict[str, tuple[Callable[[PlannerInput], Planner | str], str]] = {
    "single-queue rounds": (single_queue_rounds, "a round looks only at what changed since the round before"),
    "moving-order rounds": (moving_order_rounds, "jobs keep their GPUs, and the order is made anew in each round"),
    "share rounds": (share_rounds, "a round touches only jobs whose number of GPUs changes"),
    "queue rounds": (queue_rounds, "jobs keep their GPUs; admission and order are made anew in each round"),
}


def replay_plan(
    config: SchedulerConfig,
    workload: Columns,
    servers: ServerTable,
    queues: QueueTable,
    *,
    interrupted: bool = False,
    held: Placements | None = None,
    whole: WholeRounds | None = None,
) -> tuple[Planner, str]:
    """Return the planner of a replay, and why it was chosen: a line for it, and one for each faster one.

    Args:
        config: How rounds decide.
        workload: The jobs.
        servers, queues: The cluster.
        interrupted: Whether the replay is saved, or begins in the middle.
        held: What runs at the begin, by rows of the workload; None for nothing.
        whole: What plans rounds from scratch; None to make it here.
    """
    whole = whole or WholeRounds(servers, queues, config)
    given = planner_input(config, workload, servers, queues, interrupted=interrupted, held=held)
    if isinstance(given, str):
        return whole, f"every round is planned from scratch: {given}"
    refused: list[str] = []
    for name, (build, what) in _PLANNERS.items():
        found = build(given)
        if not isinstance(found, str):
            return found, "\n".join([f"{name}: {what}", *refused])
        refused.append(f"  not {name}: {found}")
    return whole, "\n".join(["every round is planned from scratch", *refused])
