"""Random rounds with all that can stop a job: nested queues, limits, gangs, loans, lost servers, holds."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

import numpy as np

from scheduler.core.model.holds import After, ArrayLimit
from scheduler.core.model.plan import Plan
from scheduler.core.model.tables import NO_ROW, Snapshot
from scheduler.core.packing.kept_placements import placements
from scheduler.core.round.config import SchedulerConfig
from scheduler.core.round.plan_round import plan_round
from scheduler.mechanisms import MECHANISMS
from scheduler.placement import LOCALITIES
from scheduler.policies import POLICIES
from scheduler.policies.fifo import Fifo
from scheduler.policies.priority import Priority
from tests.support.oracle.cases import Case, random_case
from tests.support.oracle.told.line import line_wrong
from tests.support.oracle.told.rules import false_rule
from tests.support.oracle.told.waits import false_wait
from tests.support.oracle.told.world import World
from tests.support.simulator.strategies import NO_LIMIT, QueueRow

IN_LINE = {"fifo": Fifo, "priority": Priority}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """One round to ask about: the cluster, what holds jobs back in it, and how it decides."""

    case: Case
    config: SchedulerConfig
    user_max_gpus: tuple[int, ...]
    barred: tuple[tuple[int, int], ...]
    prepared: tuple[tuple[int, tuple[int, ...]], ...]
    arrays: tuple[ArrayLimit, ...]
    after: tuple[After, ...]
    lost: frozenset[int]
    releasing: tuple[tuple[int, int], ...]

    def snapshot(self) -> Snapshot:
        """Return what the round looks at. A lost server offers nothing, so what runs there holds nothing any more."""
        plain = self.case.snapshot()
        running = np.array(
            [bool(job.seats) or at in self.lost for at, job in enumerate(self.case.jobs)], dtype=np.bool_
        )
        held_at_s = np.array([job.held_at_s for job in self.case.jobs])
        return replace(
            plain,
            jobs=replace(plain.jobs, running=running, held_at_s=np.where(running, held_at_s, np.inf)),
            queues=replace(plain.queues, user_max_gpus=np.array(self.user_max_gpus, dtype=np.int64)),
            releasing=placements([(NO_ROW, server, gpus) for server, gpus in self.releasing], plain.servers),
            barred=self.barred,
            prepared=self.prepared,
            arrays=self.arrays,
            after=self.after,
        )

    def false(self) -> list[str]:
        """Return what the plan says that is not true."""
        snapshot = self.snapshot()
        return told_wrong(self, snapshot, plan_round(snapshot, self.config))


def told_wrong(cluster: Cluster, snapshot: Snapshot, plan: Plan) -> list[str]:
    """Return one line for each reason or rule of a plan that does not hold."""
    config = cluster.config
    world = World(cluster.case, snapshot, plan, config)
    lines = []
    for wait in plan.waiting:
        if wrong := false_wait(world, wait):
            lines.append(f"{wait.job} waits: {wait.reason.value} {wait.evidence}: {wrong}")
    for stop in plan.preemptions:
        if wrong := false_rule(world, config, stop):
            lines.append(f"{stop.job} by {stop.by_job}: {stop.rule.value} {stop.evidence}: {wrong}")
    return lines + line_wrong(world, plan)


def random_cluster(rng: Random) -> Cluster:
    """Return a round; about half of them have some of what most rounds have nothing of."""
    case = random_case(
        rng, wide=rng.random() < 0.6, elastic=rng.random() < 0.4, protected=rng.random() < 0.4, running=True
    )
    queues = _queues(rng, case.num_gpus)
    jobs = []
    for job in case.jobs:
        insists = rng.random() < 0.15
        jobs.append(
            replace(
                job,
                queue=rng.randrange(len(queues)),
                min_cpus=rng.choice([2.0, 5.0, 12.0]) * job.num_gpus if insists else 0.0,
                lent=bool(job.seats) and rng.random() < 0.2,
            )
        )
    case = replace(case, jobs=tuple(jobs), queues=tuple(queues))
    servers, numbers = len(case.servers), [row + 1 for row in range(len(jobs))]
    lost: set[int] = set()
    if rng.random() < 0.15:
        case, lost = _without_a_server(case, rng.randrange(servers))
    often = rng.random
    some_servers: Callable[[], tuple[int, ...]] = lambda: tuple(  # noqa: E731
        server for server in range(1, servers + 1) if often() < 0.5
    )
    return Cluster(
        case=case,
        config=_config(rng),
        user_max_gpus=tuple(rng.choice([0, 2, 4]) if often() < 0.3 else 0 for _ in queues),
        barred=tuple(
            (queue, server) for queue in range(1, len(queues) + 1) if often() < 0.15 for server in some_servers()
        ),
        prepared=tuple((number, some_servers()) for number in numbers if often() < 0.1),
        arrays=_arrays(rng, numbers),
        after=(After(jobs=tuple(sorted(rng.sample(numbers, 1))), on=(97, 98)),) if often() < 0.2 else (),
        lost=frozenset(lost),
        releasing=_releasing(rng, case) if often() < 0.3 else (),
    )


def _without_a_server(case: Case, gone: int) -> tuple[Case, set[int]]:
    """Return the case in which one server stays empty, and the jobs that ran there and now hold too little."""
    lost, jobs = set(), []
    for at, job in enumerate(case.jobs):
        seats = tuple(seat for seat in job.seats if seat[0] != gone)
        if seats != job.seats:
            lost.add(at)
        jobs.append(replace(job, seats=seats))
    return replace(case, jobs=tuple(jobs)), lost


def _queues(rng: Random, capacity_gpus: int) -> list[QueueRow]:
    left, rows = capacity_gpus, []
    for row in range(rng.randint(1, 5)):
        quota = rng.randint(0, left)
        left -= quota
        rows.append(
            QueueRow(
                parent=rng.randint(NO_ROW, row - 1) if rng.random() < 0.5 else NO_ROW,
                quota_gpus=quota,
                weight=rng.choice([1.0, 1.0, 2.0, 0.5]),
                may_borrow=rng.random() < 0.75,
                max_gpus=rng.choice([NO_LIMIT, NO_LIMIT, quota + 2]),
            )
        )
    return rows


def _arrays(rng: Random, numbers: list[int]) -> tuple[ArrayLimit, ...]:
    if rng.random() > 0.2 or len(numbers) < 2:
        return ()
    mine = tuple(sorted(rng.sample(numbers, rng.randint(2, len(numbers)))))
    return (ArrayLimit(number=99, most=rng.randint(1, 3), outside=rng.choice([0, 0, 1]), jobs=mine),)


def _releasing(rng: Random, case: Case) -> tuple[tuple[int, int], ...]:
    free = [row.num_gpus for row in case.servers]
    for job in case.jobs:
        for server, gpus in job.seats:
            free[server] -= gpus
    return tuple((server, rng.randint(1, gpus)) for server, gpus in enumerate(free) if gpus > 0 and rng.random() < 0.5)


def _config(rng: Random) -> SchedulerConfig:
    name = rng.choice(sorted(POLICIES))
    policy = IN_LINE[name](backfill=False) if name in IN_LINE and rng.random() < 0.3 else POLICIES[name]()
    mechanism = rng.choice(["proportional", "proportional", "tune", "tune", "greedy", "opt"])
    return SchedulerConfig(
        policy=policy,
        locality=LOCALITIES[rng.choice(sorted(LOCALITIES))](),
        mechanism=MECHANISMS[mechanism](),
        preempt=rng.random() < 0.85,
        reclaim_after_s=rng.choice([0.0, 0.0, 500.0]),
        min_run_s=rng.choice([0.0, 0.0, 1_500.0]),
    )
