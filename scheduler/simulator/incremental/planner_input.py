"""What the incremental planners are built from, and the conditions that several of them share.

A condition that does not hold is told as a clause that completes "... does not apply: ", for ``replay_plan``.
"""

from dataclasses import dataclass

import numpy as np

from scheduler.core.model.queue_tree import queue_tree
from scheduler.core.model.tables import JobTable, Placements, QueueTable, ServerTable, Snapshot
from scheduler.core.packing.board import Board
from scheduler.core.packing.cpu_memory_ledger import CpuMemoryLedger
from scheduler.core.packing.kept_placements import is_overfull
from scheduler.core.packing.locality import LooksAtSizes
from scheduler.core.packing.seating import GpuBoard
from scheduler.core.round.capabilities import ChangesBySelf, GrantsByServer
from scheduler.core.round.config import SchedulerConfig
from scheduler.core.round.round_state import JobDemands, board_of, job_demands
from scheduler.simulator.state.columns import Columns


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerInput:
    """A workload on a cluster, with what is computed once for all of its jobs.

    Attributes:
        config: How rounds decide.
        columns: The workload.
        servers, queues: The cluster.
        jobs: The whole workload as a table; its rows are those of ``columns``.
        demands: What the jobs ask for.
        ledger: The cores and memory that servers give, kept from round to round.
        interrupted: Whether the replay is saved, or begins in the middle.
    """

    config: SchedulerConfig
    columns: Columns
    servers: ServerTable
    queues: QueueTable
    jobs: JobTable
    demands: JobDemands
    ledger: CpuMemoryLedger
    interrupted: bool


def planner_input(
    config: SchedulerConfig,
    columns: Columns,
    servers: ServerTable,
    queues: QueueTable,
    *,
    interrupted: bool = False,
    held: Placements | None = None,
) -> PlannerInput | str:
    """Return what incremental planners are built from, or why there can be none.

    For the arguments see ``replay_plan``.
    """
    locality, mechanism = config.locality, config.mechanism
    if queues.user_max_gpus.any():
        return "a queue limits the GPUs of each user"
    if config.introspection:
        return "introspection tries changes on running jobs"
    if isinstance(locality, ChangesBySelf):
        return f"the servers that {locality.name} accepts change while a job waits"
    if isinstance(locality, LooksAtSizes):
        return f"{locality.name} looks at the sizes of all jobs on a server"
    if not len(columns) or not len(servers):
        return "there are no jobs or no servers"
    if (np.diff(servers.server_id) <= 0).any():
        return "servers are not in the order of their ids"
    if not isinstance(mechanism, GrantsByServer):
        return f"{mechanism.name} gives cores and memory over all servers at once"
    jobs = columns.look(np.arange(len(columns)), 0.0)
    demands = job_demands(jobs, servers, config, now_s=0.0)
    if held is not None and is_overfull(held, servers, demands.needs):
        return "a server has less than the jobs need that run there at the begin, so some have to leave it"
    ledger = mechanism.ledger(jobs, servers, demands.needs)
    if ledger is None:
        return f"{mechanism.name} with these options gives cores and memory over all servers at once"
    return PlannerInput(
        config=config,
        columns=columns,
        servers=servers,
        queues=queues,
        jobs=jobs,
        demands=demands,
        ledger=ledger,
        interrupted=interrupted,
    )


def why_queues_bind(given: PlannerInput) -> str:
    """Return why queues may keep a job from free GPUs; empty where one queue may hold all GPUs."""
    queues, capacity = given.queues, int(given.servers.num_gpus.sum())
    if len(queues) != 1:
        return f"there are {len(queues)} queues"
    if queue_tree(queues).cap[0] < capacity:
        return "the queue may not hold all GPUs"
    if queues.quota_gpus[0]:
        return "the queue has a quota"
    return ""


def why_cores_bind(given: PlannerInput) -> str:
    """Return why less room may help a job that was refused; empty where it never does.

    A gang on a limited number of servers takes those with the most free GPUs, also where few of these come with enough
    cores; when they are taken, it looks at better ones.
    """
    limited = any(gang.max_servers > 1 or gang.kind for gang in given.demands.gangs)
    if given.demands.needs.tight and limited:
        return "jobs insist on cores or memory, and some may use only so many servers"
    return ""


def seat_board(given: PlannerInput) -> Board | GpuBoard:
    """Return a board without jobs, which books cores and memory only where they may run out before the GPUs."""
    if not given.demands.needs.tight:
        return GpuBoard(given.servers)
    empty = Snapshot(now_s=0.0, jobs=given.jobs, servers=given.servers, queues=given.queues)
    return board_of(empty, given.config, queue_tree(given.queues), given.demands.needs, empty.held)


def why_order_is_not_all(given: PlannerInput) -> str:
    """Return why a job may be kept from GPUs by something else than the order; empty where the order alone decides."""
    config, policy = given.config, given.config.policy
    if config.min_run_s:
        return f"jobs may not be stopped in their first {config.min_run_s:g} s"
    if policy.preemptive and config.preempt and not given.columns.preemptible.all():
        return "some jobs may not be stopped"
    return why_queues_bind(given) or why_cores_bind(given)
