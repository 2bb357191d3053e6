"""A workload lived through by the real live system, on a virtual clock: services, rounds, estimates after rounds.

Agents are fake and run nothing: a job ends when it has run for as long as the workload says, which the estimator does
not know. Half of the jobs say how long they are by reporting their steps, as on a real cluster.
"""

from collections import Counter
from dataclasses import dataclass
from datetime import timedelta

from django.contrib.auth.models import User

from scheduler.models import StartEstimate
from scheduler.simulator.workloads.philly import philly_like
from scheduler.whatif.estimates import Estimator
from tests import factories
from tests.world import World

SERVERS, SLOTS = 2, 8
STEP_S = ROUND_S = 300
# Run times of the workload over this: minutes to hours instead of hours to days.
SHORTER = 10.0
GIVE_UP = timedelta(days=20)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What became of the estimates.

    Attributes:
        jobs: Submitted.
        starts: Starts of jobs that had an estimate with a p90 before.
        covered: Those that started no later than their first p90.
        below_p50: Those that started no later than their first p50.
        errors_s: Start minus first p50, ascending by size.
        waits_s: From the first estimate to the start, ascending.
        unknown: Waits for which nothing was known when they ended.
    """

    jobs: int
    starts: int
    covered: int
    below_p50: int
    errors_s: list[float]
    waits_s: list[float]
    unknown: int


def estimates_replayed(*, num_jobs: int, load: float, seed: int) -> Found:
    """Return how good the estimates of all starts were; needs an empty database."""
    replay = _Replay(num_jobs=num_jobs, load=load, seed=seed)
    replay.live()
    kept = list(StartEstimate.objects.filter(started_at__isnull=False, first_p90_at__isnull=False))
    known = [row for row in kept if row.error_s is not None]
    return Found(
        jobs=num_jobs,
        starts=len(kept),
        covered=sum(row.started_at <= row.first_p90_at for row in kept if row.started_at and row.first_p90_at),
        below_p50=sum((row.error_s or 0.0) <= 0 for row in known),
        errors_s=sorted((row.error_s or 0.0 for row in known), key=abs),
        waits_s=sorted(
            (row.started_at - row.first_made_at).total_seconds() for row in kept if row.started_at and row.first_made_at
        ),
        unknown=StartEstimate.objects.filter(started_at__isnull=False, first_p50_at__isnull=True).count(),
    )


class _Replay:
    """The cluster and its workload."""

    def __init__(self, *, num_jobs: int, load: float, seed: int) -> None:
        self.world = World()
        self.owners: list[User] = []
        for name in ("vision", "nlp"):
            queue = self.world.queue(name, quota_gpus=SERVERS * SLOTS // 2)
            self.owners.append(factories.member_make(queue))
        for number in range(SERVERS):
            self.world.server(f"gpu-{number + 1:02d}", slots=SLOTS)
        self.jobs = philly_like(
            num_jobs=num_jobs, cluster_gpus=SERVERS * SLOTS, load=load, seed=seed, diurnal=False, num_queues=2
        )
        self.run_s = [max(float(STEP_S), job.run_s / SHORTER) for job in self.jobs]
        self.row_of: dict[str, int] = {}
        self.ran_s: Counter[str] = Counter()  # over all attempts, by job
        self.estimator = Estimator(self.world.ports)

    def live(self) -> None:
        """Let time pass until every job has ended."""
        world = self.world
        begun, passed_s, next_row = world.clock.now(), 0, 0
        while self.row_of or next_row < len(self.jobs):
            while next_row < len(self.jobs) and self.jobs[next_row].arrival_s / SHORTER <= passed_s:
                self._submit(next_row)
                next_row += 1
            world.round()
            self.estimator.tick()
            self._step()
            passed_s += STEP_S
            assert world.clock.now() - begun < GIVE_UP, f"{len(self.row_of)} jobs did not end"

    def _submit(self, row: int) -> None:
        job = self.jobs[row]
        queue, owner = ("vision", "nlp")[job.queue], self.owners[job.queue]
        length = {"progress": {"total_steps": round(self.run_s[row])}} if row % 2 else {}
        made = self.world.submit(queue, actor=owner, gpus=min(SLOTS, job.num_gpus), name=f"job-{row}", **length)
        self.row_of[made.pk] = row

    def _step(self) -> None:
        world = self.world
        world.rounds()  # what submissions and ends asked for
        for agent in world.agents.values():
            agent.read()
        world.clock.advance(float(STEP_S))
        for agent in world.agents.values():
            agent.work(float(STEP_S))
        self._end_due()
        for agent in world.agents.values():
            agent.send()
        reports = world.transport.receive_reports(world.engine.server_ids(), timeout_s=0)
        world.do(lambda: world.engine.take(reports))
        world.do(world.engine.tick)

    def _end_due(self) -> None:
        """End the jobs that have run for as long as they take, over all their attempts."""
        for agent in self.world.agents.values():
            for attempt in agent.attempts.values():
                job_id = attempt.wanted.job_id
                row = self.row_of.get(job_id)
                if row is None or attempt.phase != "running" or attempt.wanted.wanted != "run":
                    continue
                self.ran_s[job_id] += STEP_S
                if self.ran_s[job_id] >= self.run_s[row]:
                    agent.end(job_id, cause="completed", exit_code=0)
                    del self.row_of[job_id]
