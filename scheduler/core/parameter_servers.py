"""Parameter servers and workers of jobs: how many each gets, on which servers, and which blocks each server keeps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Literal

from scheduler.core.performance.speed_fit import SpeedModel

# Amounts by resource, such as {"cpus": 4, "gpus": 1}.
Resources = Mapping[str, float]
Kind = Literal["server", "worker"]
# (parameter servers, workers)
Tasks = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PsJob:
    """A job with parameter servers.

    Attributes:
        steps: Steps left.
        model: Its speed.
        worker: What a worker needs.
        server: What a parameter server needs.
    """

    steps: float
    model: SpeedModel
    worker: Resources
    server: Resources

    def remaining_s(self, tasks: Tasks) -> float:
        """Return the run time left, seconds."""
        return self.steps / self.model.speed(*tasks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """One task given to a job; ``gain`` is remaining time saved per unit of the task's dominant resource."""

    job: int
    kind: Kind
    gain: float


def allocate(jobs: Sequence[PsJob], capacity: Resources) -> tuple[list[Tasks], list[Addition]]:
    """Return (servers, workers) of each job, (0, 0) where not even one of each fits, and the additions in order.

    One of each to everybody, then task by task to the largest gain, until no gain is left or the best does not fit.

    Source: Peng et al., "Optimus", EuroSys 2018, section 4.1.
    """
    left = dict(capacity)
    tasks: list[Tasks] = []
    for job in jobs:
        both = {name: job.worker.get(name, 0.0) + job.server.get(name, 0.0) for name in {*job.worker, *job.server}}
        fits = _fits(both, left)
        if fits:
            _take(both, left)
        tasks.append((1, 1) if fits else (0, 0))
    heap = [(*_best_gain(job, tasks[row], capacity), row) for row, job in enumerate(jobs) if tasks[row] != (0, 0)]
    heapify(heap)
    added: list[Addition] = []
    while heap:
        cost, kind, row = heappop(heap)
        need = jobs[row].worker if kind == "worker" else jobs[row].server
        if cost >= 0 or not _fits(need, left):
            break
        _take(need, left)
        servers, workers = tasks[row]
        tasks[row] = (servers, workers + 1) if kind == "worker" else (servers + 1, workers)
        added.append(Addition(job=row, kind=kind, gain=-cost))
        heappush(heap, (*_best_gain(jobs[row], tasks[row], capacity), row))
    return tasks, added


def _best_gain(job: PsJob, tasks: Tasks, capacity: Resources) -> tuple[float, Kind]:
    """Return the gain of the better addition, negative so that the heap has the largest first; a server on ties."""
    servers, workers = tasks
    now_s = job.remaining_s(tasks)
    by_worker = (now_s - job.remaining_s((servers, workers + 1))) / _dominant(job.worker, capacity)
    by_server = (now_s - job.remaining_s((servers + 1, workers))) / _dominant(job.server, capacity)
    return (-by_server, "server") if by_server >= by_worker else (-by_worker, "worker")


def _dominant(need: Resources, capacity: Resources) -> float:
    """Return the amount of the resource of which the task takes the largest share of the cluster."""
    return need[max(sorted(need), key=lambda name: need[name] / capacity[name] if capacity[name] else 0.0)]


def _fits(need: Resources, left: Resources) -> bool:
    return all(left.get(name, 0.0) >= amount for name, amount in need.items())


def _take(need: Resources, left: dict[str, float]) -> None:
    for name, amount in need.items():
        left[name] -= amount


def place(jobs: Sequence[PsJob], tasks: Sequence[Tasks], free: Sequence[Resources]) -> list[dict[int, Tasks]]:
    """Return for each job how many parameter servers and workers it has on each server; nothing where it must wait.

    The fewest servers, most free cores first, over which its tasks can be dealt evenly. Where that never fits, its
    tasks go one by one wherever there is room, and it makes do with those.

    Source: Peng et al., "Optimus", EuroSys 2018, section 4.2 (theorem 1).
    """
    left = [dict(amounts) for amounts in free]
    placed: list[dict[int, Tasks]] = [{} for _ in jobs]
    for row in sorted(range(len(jobs)), key=lambda row: (sum(tasks[row]), row)):
        order = sorted(range(len(left)), key=lambda server: (-left[server].get("cpus", 0.0), server))
        placed[row] = _even(jobs[row], tasks[row], order, left) or _anywhere(jobs[row], tasks[row], order, left)
        for server, (servers, workers) in placed[row].items():
            _take(_need(jobs[row], servers, workers), left[server])
    return placed


def _need(job: PsJob, servers: int, workers: int) -> Resources:
    names = {*job.server, *job.worker}
    return {name: servers * job.server.get(name, 0.0) + workers * job.worker.get(name, 0.0) for name in sorted(names)}


def _even(job: PsJob, tasks: Tasks, order: Sequence[int], left: Sequence[Resources]) -> dict[int, Tasks]:
    for count in range(1, min(len(order), max(tasks)) + 1):
        dealt = {
            server: (len(range(place, tasks[0], count)), len(range(place, tasks[1], count)))
            for place, server in enumerate(order[:count])
        }
        if all(_fits(_need(job, *counts), left[server]) for server, counts in dealt.items()):
            return dealt
    return {}


def _anywhere(job: PsJob, tasks: Tasks, order: Sequence[int], left: Sequence[Resources]) -> dict[int, Tasks]:
    room = [dict(amounts) for amounts in left]
    dealt: dict[int, Tasks] = {}
    placed = [0, 0]
    for number in range(max(tasks)):
        for kind, need in ((0, job.server), (1, job.worker)):
            server = next((server for server in order if _fits(need, room[server])), None)
            if number < tasks[kind] and server is not None:
                _take(need, room[server])
                servers, workers = dealt.get(server, (0, 0))
                dealt[server] = (servers + 1, workers) if kind == 0 else (servers, workers + 1)
                placed[kind] += 1
    return dealt if min(placed) else {}


def assign_blocks(sizes: Sequence[float], num_servers: int) -> list[list[float]]:
    """Return the pieces of parameter blocks on each parameter server, evenly by size, in few pieces.

    Blocks up to the mean load go where they fit best, tiny ones where the fewest are, and larger ones are cut.

    Source: Peng et al., "Optimus", EuroSys 2018, section 5.3 (PAA).
    """
    total = sum(sizes)
    mean = -(-total // num_servers)
    pieces: list[list[float]] = [[] for _ in range(num_servers)]
    for size in sorted(sizes, reverse=True):
        if size <= total / (100 * num_servers):
            min(pieces, key=len).append(size)
            continue
        rest = size
        while rest > mean:
            emptiest = min(pieces, key=sum)
            part = min(rest, max(mean - sum(emptiest), 0.0))
            if not part:
                break
            emptiest.append(part)
            rest -= part
        while rest:
            rest = _best_fit(pieces, rest, mean, cut=size > mean)
    return pieces


def _best_fit(pieces: list[list[float]], size: float, mean: float, *, cut: bool) -> float:
    """Put a piece where the least room is left over, else on the emptiest server, cut to its room; return the rest."""
    slack = [(mean - sum(held) - size, number) for number, held in enumerate(pieces)]
    fitting = [entry for entry in slack if entry[0] >= 0]
    if fitting:
        pieces[min(fitting)[1]].append(size)
        return 0.0
    emptiest = min(pieces, key=sum)
    room = mean - sum(emptiest)
    part = min(size, room) if cut and room > 0 else size
    emptiest.append(part)
    return size - part
