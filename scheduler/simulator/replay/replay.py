"""What one replay is of: the jobs, the cluster, how rounds decide, what things cost, and what is to be recorded."""

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

from scheduler.core.model.tables import QueueTable, ServerTable
from scheduler.core.round.config import SchedulerConfig
from scheduler.simulator.jobs import SimJob
from scheduler.simulator.state.begun import Begun
from scheduler.simulator.state.world import Costs, Retries


@dataclass(frozen=True, slots=True)
class Replay:
    """The input of ``simulate``.

    Attributes:
        jobs: The workload.
        servers: The cluster.
        queues: Its queues.
        config: How rounds decide.
        begun: A running cluster to begin with; None for an empty one.
        round_s: Seconds between rounds, counted from 0; None for a round whenever something changes.
        beat_s: Only where ``round_s`` is None. Rounds that no arrival or end causes come at multiples of this many
            seconds, as on a live cluster; None for at once. With introspection it has no meaning.
        restart_s: Seconds without progress that every start after a job's first costs.
        resume_s: The same on the servers from which the scheduler took the job last, where its state still is; None for
            no difference.
        leave_s: Seconds that a stopped job needs to leave its GPUs; a job that gets a place on the same server in that
            round, or elsewhere the stopped job itself, begins so much later.
        checkpoint_s: Run time between two checkpoints; a failed attempt loses the work since the last. A job that is
            preempted saves its state first.
        costs: What starts and resizes cost instead of ``restart_s``.
        retries: What happens after a failed attempt; without it the job is queued again at once.
        until_s: The replay stops here at the latest.
        until_started: Rows of jobs; the replay stops when all of them have started; empty for no such stop.
        incremental: Whether rounds that cannot change anything are skipped, and the others are planned from what
            changed where that is possible (see ``replay_plan``). Without it every round is planned from scratch. The
            outcome is the same.
        keep_series: Whether the outcome holds the cluster over time.
        keep_stays: Whether the outcome holds which job was where and when.
        keep_reasons: Whether records hold how long each job waited for which reason. Every planned round is planned
            from scratch then, which takes much longer; the outcome is the same otherwise.
        check_every: Where rounds are planned from what changed: every so many of them are planned from scratch as well
            and compared, and the safety rules are checked on all; 0 for no checks.
    """

    jobs: Sequence[SimJob]
    servers: ServerTable
    queues: QueueTable
    config: SchedulerConfig
    _: KW_ONLY
    begun: Begun | None = None
    round_s: float | None = None
    beat_s: float | None = None
    restart_s: float = 0.0
    resume_s: float | None = None
    leave_s: float = 0.0
    checkpoint_s: float = math.inf
    costs: Costs | None = None
    retries: Retries | None = None
    until_s: float = math.inf
    until_started: Sequence[int] = ()
    incremental: bool = True
    keep_series: bool = False
    keep_stays: bool = False
    keep_reasons: bool = False
    check_every: int = 0
