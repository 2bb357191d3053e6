"""One round seen from outside, before and after, as plain numbers. Shares no code with the product."""

import math
from collections.abc import Collection, Iterable
from functools import cached_property

from scheduler.core.model.plan import Plan
from scheduler.core.model.tables import Snapshot
from scheduler.core.round.config import SchedulerConfig, SharePolicy
from tests.support.oracle.cases import Case

NOTHING: frozenset[int] = frozenset()
TOLERANCE = 1e-9
Seats = dict[int, int]  # GPUs by server


class World:
    """A cluster before and after a round; jobs, servers and queues are rows of the snapshot."""

    def __init__(self, case: Case, snapshot: Snapshot, plan: Plan, config: SchedulerConfig) -> None:
        """Read the tables."""
        mechanism = config.mechanism.name
        # Jobs may wait for servers nearer to each other, or for those that the mechanism emptied since.
        self.is_choosy = config.locality.name in ("relax", "skew") or mechanism in ("tune", "opt")
        self.is_preemptive = config.policy.preemptive and config.preempt
        self.is_sharing = isinstance(config.policy, SharePolicy)
        self.case, self.snapshot, self.plan = case, snapshot, plan
        self.jobs = range(len(snapshot.jobs))
        self.size: list[int] = snapshot.servers.num_gpus.tolist()
        self.total = sum(self.size)
        self.queue: list[int] = snapshot.jobs.queue.tolist()
        self.parent: list[int] = snapshot.queues.parent.tolist()
        self.order = list(plan.order)
        self._trims, self._insists = mechanism in ("tune", "opt"), mechanism == "greedy"

    def _seats(self, table: str) -> dict[int, Seats]:
        placements = self.plan.grants if table == "after" else self.snapshot.held
        seats: dict[int, Seats] = {}
        columns = (placements.job.tolist(), placements.server.tolist(), placements.num_gpus.tolist())
        for job, server, gpus in zip(*columns, strict=True):
            seats.setdefault(job, {})[server] = gpus
        return seats

    @cached_property
    def before(self) -> dict[int, Seats]:
        """Where jobs ran."""
        return self._seats("before")

    @cached_property
    def after(self) -> dict[int, Seats]:
        """Where jobs run after the round."""
        return self._seats("after")

    @cached_property
    def free(self) -> list[int]:
        """Return the GPUs of each server that no job holds after the round; those being left count as free."""
        free = list(self.size)
        for seats in self.after.values():
            for server, gpus in seats.items():
                free[server] -= gpus
        return free

    @cached_property
    def leaving(self) -> list[int]:
        """Return the GPUs of each server that jobs outside the round are about to leave."""
        leaving = [0] * len(self.size)
        for server, gpus in zip(
            self.snapshot.releasing.server.tolist(), self.snapshot.releasing.num_gpus.tolist(), strict=True
        ):
            leaving[server] += gpus
        return leaving

    def gpus(self, job: int, seats: dict[int, Seats]) -> int:
        """Return the GPUs that a job has there."""
        return sum(seats.get(job, {}).values())

    def path(self, queue: int) -> list[int]:
        """Return the queue and those above it, nearest first."""
        path = []
        while queue >= 0:
            path.append(queue)
            queue = self.parent[queue]
        return path

    def quota(self, queue: int) -> int:
        """Return the GPUs guaranteed to the queue with those below it."""
        below = [other for other, parent in enumerate(self.parent) if parent == queue]
        return max(int(self.snapshot.queues.quota_gpus[queue]), sum(self.quota(other) for other in below))

    def cap(self, queue: int) -> int:
        """Return the most that the queue may hold with those below it."""
        most = int(self.snapshot.queues.max_gpus[queue])
        return most if self.snapshot.queues.may_borrow[queue] else min(most, self.quota(queue))

    def within(self, queue: int) -> list[int]:
        """Return the jobs of the queue and of those below it."""
        return [job for job in self.jobs if queue in self.path(self.queue[job])]

    def held(self, queue: int, seats: dict[int, Seats], jobs: Collection[int] | None = None) -> int:
        """Return the GPUs that the queue holds with those below it, or that these jobs of it hold."""
        return sum(self.gpus(job, seats) for job in self.within(queue) if jobs is None or job in jobs)

    def barred(self, job: int) -> frozenset[int]:
        """Return the servers that do not keep jobs apart as the queue of the job demands."""
        number = self.snapshot.queues.queue_id[self.queue[job]]
        ids = self.snapshot.servers.server_id.tolist()
        return frozenset(ids.index(server) for queue, server in self.snapshot.barred if queue == number)

    def ready(self, job: int) -> frozenset[int] | None:
        """Return the servers that have the environment of the job; None where it needs none."""
        number, ids = self.snapshot.jobs.job_id[job], self.snapshot.servers.server_id.tolist()
        found = [ready for of_job, ready in self.snapshot.prepared if of_job == number]
        return frozenset(ids.index(server) for server in found[0]) if found else None

    def unprepared(self, job: int) -> frozenset[int]:
        """Return the servers that lack the environment of the job."""
        ready = self.ready(job)
        return NOTHING if ready is None else frozenset(range(len(self.size))) - ready

    def room(self, job: int, free: list[int], closed: Collection[int], *, gpus: int = 0) -> int:
        """Return how many GPUs the job could get on servers with so many free, none of them closed to it.

        As a gang of ``gpus`` it gets as many as there are cores and memory for beside what runs after the round; beside
        nothing where all GPUs are said to be free. Without that number only GPUs count.
        """
        counts = sorted(
            (
                min(count, self._by_cores(job, server, gpus, empty=free is self.size)) if gpus else count
                for server, count in enumerate(free)
                if server not in closed
            ),
            reverse=True,
        )
        most = int(self.snapshot.jobs.max_servers[job])
        return int(sum(counts[:most] if most else counts))

    def has_room(self, job: int, needed: int, closed: Collection[int]) -> bool:
        """Return whether it would fit on one server beside what runs; False where it may wait all the same."""
        if self.is_choosy:
            return False
        return any(
            min(gpus, self._by_cores(job, server, needed, empty=False)) >= needed
            for server, gpus in enumerate(self.free)
            if server not in closed
        )

    def _by_cores(self, job: int, server: int, gpus: int, *, empty: bool) -> int:
        row = self.case.servers[server]
        left = [row.num_cpus, row.memory_bytes]
        for other, seats in self.after.items():
            if server in seats and not empty:
                used = self.need(other, server, self.gpus(other, self.after))
                left = [amount - seats[server] * per_gpu for amount, per_gpu in zip(left, used, strict=True)]
        counts = [
            math.floor(max(0.0, amount) * (1 + TOLERANCE) / per_gpu + TOLERANCE) if per_gpu else self.total
            for amount, per_gpu in zip(left, self.need(job, server, gpus), strict=True)
        ]
        return min(counts)

    def need(self, job: int, server: int, gpus: int) -> tuple[float, float]:
        """Return the cores and bytes per GPU without which the job does not start there as a gang of so many GPUs."""
        row, of = self.case.jobs[job], self.case.servers[server]
        holding = [each for each in self.case.servers if each.num_gpus >= gpus]
        roomiest = max(holding, key=lambda each: (each.num_cpus, each.memory_bytes), default=None)
        needs = []
        for least, demand, has, share in (
            (row.min_cpus, row.demand_cpus, "num_cpus", of.num_cpus / of.num_gpus),
            (row.min_memory_bytes, row.demand_memory_bytes, "memory_bytes", of.memory_bytes / of.num_gpus),
        ):
            wants = max(least, demand * gpus / row.num_gpus)
            if self._insists and roomiest is not None and math.isfinite(demand):
                needs.append(max(least, min(demand * gpus / row.num_gpus, getattr(roomiest, has))) / gpus)
            else:
                needs.append(max(least / gpus, min(share, wants / gpus) if self._trims else share))
        return needs[0], needs[1]

    def ahead(self, job: int) -> Iterable[int]:
        """Return the jobs before it in the order of the policy."""
        return self.order[: self.order.index(job)]
