"""A whole history, moment by moment: jobs arrive, the plain round decides, time passes, jobs end.

Every gang sits on one server and runs at speed 1, so times of whole seconds stay exact.
"""

import math
from dataclasses import dataclass, replace

from tests.support.oracle.amounts import GIVERS, needs_of
from tests.support.oracle.cases import Case
from tests.support.oracle.orders import LAS_LIMIT_GPU_S, ORDERS
from tests.support.oracle.places import PLACES, Seats
from tests.support.oracle.rounds import brute_round
from tests.support.simulator.strategies import JobRow, QueueRow, ServerRow

DUST_S = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A job of a history: when it arrives and what it takes."""

    arrival_s: float
    num_gpus: int
    run_s: float
    priority: float = 50.0
    owner: int = 0


@dataclass(slots=True)
class _Life:
    row: JobRow
    end_s: float = math.inf

    def active_s(self, since_s: float, until_s: float) -> float:
        """Return how long it was there in a span of time."""
        return max(0.0, min(self.end_s, until_s) - max(self.row.arrival_s, since_s))


def completions(
    tasks: list[Task], servers: tuple[ServerRow, ...], policy: str, *, round_s: float | None
) -> list[float]:
    """Return when each job completes.

    Args:
        tasks: The jobs.
        servers: The cluster, in one rack and with one queue.
        policy: Name of a list policy; locality ``consolidate``, mechanism ``proportional``.
        round_s: Seconds between rounds, counted from 0; None for a round whenever a job arrives, ends or crosses the
            limit of ``las``.
    """
    lives = [_Life(_row(task)) for task in tasks]
    now_s = _on_grid(min(task.arrival_s for task in tasks), round_s)
    while True:
        active = [life for life in lives if life.row.arrival_s <= now_s and math.isinf(life.end_s)]
        for life in active:
            life.row = replace(life.row, sharers=_sharers(life, lives, active, now_s))
        _decide(active, servers, policy, now_s)
        next_s = _next_moment(lives, active, policy, now_s, round_s)
        if math.isinf(next_s):
            return [life.end_s for life in lives]
        for life in lives:
            _live(life, now_s, next_s)
        now_s = next_s


def _sharers(life: _Life, lives: list[_Life], active: list[_Life], now_s: float) -> float:
    """Return the mean number of active jobs since it arrived."""
    since_s = life.row.arrival_s
    if now_s <= since_s:
        return float(len(active))
    return max(1.0, sum(other.active_s(since_s, now_s) for other in lives) / (now_s - since_s))


def _row(task: Task) -> JobRow:
    return JobRow(
        num_gpus=task.num_gpus,
        arrival_s=task.arrival_s,
        priority=task.priority,
        owner=task.owner,
        remaining_s=task.run_s,
        total_s=task.run_s,
    )


def _decide(active: list[_Life], servers: tuple[ServerRow, ...], policy: str, now_s: float) -> None:
    """Seat the active jobs as the plain round says."""
    case = Case(
        jobs=tuple(life.row for life in active),
        servers=servers,
        racks=(0,) * len(servers),
        queues=(QueueRow(),),
        now_s=now_s,
    )
    order, needs = ORDERS[policy], needs_of(case, GIVERS["proportional"])
    seats = brute_round(case, order.of(case), preemptive=order.preemptive, place=PLACES["consolidate"], needs=needs)
    for number, life in enumerate(active):
        at: Seats = seats.get(number, ())
        if at and at != life.row.seats:
            life.row = replace(
                life.row, held_at_s=now_s, first_start_s=min(life.row.first_start_s, now_s), waited_s=0.0
            )
        life.row = replace(life.row, seats=at)


def _live(life: _Life, now_s: float, next_s: float) -> None:
    """Let time pass for one job."""
    row = life.row
    if row.arrival_s >= next_s or math.isfinite(life.end_s):
        return
    if not row.seats:
        life.row = replace(row, waited_s=row.waited_s + next_s - max(now_s, row.arrival_s))
        return
    ran_s = min(next_s - now_s, row.remaining_s)
    life.row = replace(
        row,
        remaining_s=row.remaining_s - ran_s,
        executed_s=row.executed_s + ran_s,
        attained_gpu_s=row.attained_gpu_s + ran_s * row.num_gpus,
    )
    if life.row.remaining_s <= DUST_S:
        life.end_s = now_s + ran_s
        life.row = replace(life.row, seats=())


def _next_moment(lives: list[_Life], active: list[_Life], policy: str, now_s: float, round_s: float | None) -> float:
    arrivals = [life.row.arrival_s for life in lives if life.row.arrival_s > now_s]
    running = [life.row for life in active if life.row.seats]
    if round_s is not None:
        if not running and not arrivals:
            return math.inf
        return now_s + round_s
    moments = [*arrivals, *(now_s + row.remaining_s for row in running)]
    if policy == "las":
        below = [row for row in running if row.attained_gpu_s < LAS_LIMIT_GPU_S]
        moments += [now_s + math.ceil((LAS_LIMIT_GPU_S - row.attained_gpu_s) / row.num_gpus) for row in below]
    return min(moments, default=math.inf)


def _on_grid(time_s: float, round_s: float | None) -> float:
    return time_s if round_s is None else math.ceil(time_s / round_s) * round_s
