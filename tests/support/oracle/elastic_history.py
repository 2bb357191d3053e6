"""A whole history of elastic jobs on one server: round by round the plain shares decide, time passes, jobs end."""

import math
from dataclasses import dataclass, replace
from fractions import Fraction

from scheduler.core.model.profile import Profile
from tests.support.oracle.cases import Case
from tests.support.oracle.shares import Elastic, Shares
from tests.support.simulator.strategies import JobRow, ServerRow

DUST_S = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class ElasticTask:
    """A job that can run on 1 to ``max_gpus`` GPUs, and takes ``run_s`` seconds on ``num_gpus``."""

    arrival_s: float
    num_gpus: int
    max_gpus: int
    run_s: float
    profile: Profile


@dataclass(slots=True)
class _Life:
    row: JobRow
    gpus: int = 0
    end_s: float = math.inf

    def active_s(self, since_s: float, until_s: float) -> float:
        return max(0.0, min(self.end_s, until_s) - max(self.row.arrival_s, since_s))


def elastic_completions(
    tasks: list[ElasticTask], server: ServerRow, shares: Shares, *, round_s: float
) -> tuple[list[float], list[int]]:
    """Return when each job completes, and how often its number of GPUs changed while it ran."""
    lives = [_Life(_row(task)) for task in tasks]
    changes = [0] * len(lives)
    now_s = math.ceil(min(task.arrival_s for task in tasks) / round_s) * round_s
    while any(math.isinf(life.end_s) for life in lives):
        active = [life for life in lives if life.row.arrival_s <= now_s and math.isinf(life.end_s)]
        for life, gpus in zip(active, _decided(active, lives, server, shares, now_s), strict=True):
            if gpus == life.gpus:
                continue
            changes[lives.index(life)] += bool(gpus and life.gpus)
            start_s = min(life.row.first_start_s, now_s) if gpus else life.row.first_start_s
            life.row = replace(life.row, held_at_s=now_s, first_start_s=start_s)
            life.gpus = gpus
        for life in active:
            _live(life, now_s, now_s + round_s)
        now_s += round_s
    return [life.end_s for life in lives], changes


def _row(task: ElasticTask) -> JobRow:
    return JobRow(
        num_gpus=task.num_gpus,
        min_gpus=1,
        max_gpus=task.max_gpus,
        arrival_s=task.arrival_s,
        remaining_s=task.run_s,
        total_s=task.run_s,
        profile=task.profile,
    )


def _decided(active: list[_Life], lives: list[_Life], server: ServerRow, shares: Shares, now_s: float) -> list[int]:
    rows = []
    for life in active:
        since_s = life.row.arrival_s
        sharers = float(len(active))
        if now_s > since_s:
            sharers = max(1.0, sum(other.active_s(since_s, now_s) for other in lives) / (now_s - since_s))
        rows.append(replace(life.row, sharers=sharers, seats=((0, life.gpus),) if life.gpus else ()))
    return shares(Case(jobs=tuple(rows), servers=(server,), racks=(0,), now_s=now_s), server.num_gpus)


def _live(life: _Life, now_s: float, next_s: float) -> None:
    """Let time pass for one active job; beside its own GPUs it progresses as its curve says."""
    row = life.row
    if not life.gpus:
        life.row = replace(row, waited_s=row.waited_s + next_s - now_s)
        return
    job = Elastic(0, row, life.gpus)
    rate = job.speed(life.gpus) / job.speed(row.num_gpus)
    ran_s = min(next_s - now_s, float(Fraction(row.remaining_s) / rate))
    remaining_s = row.remaining_s - ran_s * float(rate)
    life.row = replace(
        row,
        remaining_s=remaining_s,
        executed_s=row.executed_s + ran_s,
        attained_gpu_s=row.attained_gpu_s + ran_s * life.gpus,
        waited_s=0.0,
    )
    if remaining_s <= DUST_S:
        life.end_s, life.gpus = now_s + ran_s, 0
