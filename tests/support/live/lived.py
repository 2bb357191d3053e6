"""A workload lived through by the real live system on a virtual clock: services, rounds, agents that run nothing.

A job ends when it has run for as long as the workload says, which nothing in the product knows. Half of the jobs say
how long they are by reporting their steps, as on a real cluster.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import timedelta

from django.contrib.auth.models import User

from scheduler.core.model.lifecycle import JobState
from scheduler.models import Job
from scheduler.simulator.jobs import SimJob
from scheduler.simulator.traces import open_trace
from scheduler.simulator.traces import trace as cut
from tests.support.e2e.stack import ROOT
from tests.support.live.ports import FakeAgent
from tests.support.live.world import World
from tests.support.rows import factories

MONTH = ROOT / "fixtures" / "traces" / "philly_2017-10.csv.gz"
# Two virtual clusters of Philly, and a server on which their jobs wait for each other.
QUEUES = ("103959", "e13805")
SERVERS, SLOTS = 1, 8
# Time passes from one submission or end to the next, and at most so long.
MOST_STEP_S = 1_800.0
LEAST_STEP_S = 1.0
GIVE_UP = timedelta(days=60)
MOVING = (JobState.LAUNCHING, JobState.PREEMPTING)


def workload(window: str) -> list[SimJob]:
    """Return the jobs of the two virtual clusters in a part of the month; ``queue`` is their place in ``QUEUES``."""
    trace = open_trace(str(MONTH))
    from_s, to_s = cut.parse_window(window, starts_at=trace.starts_at)
    place = {trace.queues.index(name): at for at, name in enumerate(QUEUES)}
    return [
        SimJob(arrival_s=job.arrival_s, num_gpus=job.num_gpus, run_s=job.run_s, queue=place[job.queue])
        for job in cut.window(trace, from_s=from_s, to_s=to_s).jobs
        if job.queue in place and job.num_gpus <= SLOTS
    ]


class Lived:
    """The cluster and its workload.

    Attributes:
        world: Its clock, agents and services.
        jobs: What is submitted; owned by one member of each queue.
    """

    def __init__(self, jobs: Sequence[SimJob], *, policy: str) -> None:
        """Make queues, members and servers in an empty database."""
        self.world, self.jobs = World(), jobs
        self._owners: list[User] = []
        for name in QUEUES:
            queue = self.world.queue(name, quota_gpus=SERVERS * SLOTS // len(QUEUES))
            self._owners.append(factories.member_make(queue))
        for number in range(SERVERS):
            self.world.server(f"gpu-{number + 1:02d}", slots=SLOTS)
        self.world.settings(policy=policy)
        self._row_of: dict[str, int] = {}  # open jobs
        self._ran_s: dict[str, float] = defaultdict(float)  # over all attempts, by job

    def live(self, after_round: Callable[[], object]) -> None:
        """Let time pass until every job has ended."""
        world, next_row = self.world, 0
        begun, begin_s = world.clock.now(), self.jobs[0].arrival_s
        while self._row_of or next_row < len(self.jobs):
            passed_s = begin_s + (world.clock.now() - begun).total_seconds()
            while next_row < len(self.jobs) and self.jobs[next_row].arrival_s <= passed_s:
                self._submit(next_row)
                next_row += 1
            world.round()
            world.rounds()  # what submissions and ends asked for
            after_round()
            self._settle()
            coming_s = self.jobs[next_row].arrival_s - passed_s if next_row < len(self.jobs) else MOST_STEP_S
            left_s = min((self._left_s(job_id) for _, job_id in self._running()), default=MOST_STEP_S)
            self._pass(max(LEAST_STEP_S, min(MOST_STEP_S, coming_s, left_s)))
            assert world.clock.now() - begun < GIVE_UP, f"{len(self._row_of)} jobs did not end"

    def _settle(self) -> None:
        """Let seconds pass until every job is where the round wants it: preempted jobs must leave first."""
        world = self.world
        self._pass(0.0)
        world.rounds()
        while Job.objects.filter(state__in=MOVING).exists():
            self._pass(1.0)
            world.rounds()

    def _submit(self, row: int) -> None:
        job = self.jobs[row]
        length = {"progress": {"total_steps": max(1, round(job.run_s))}} if row % 2 else {}
        made = self.world.submit(
            QUEUES[job.queue], actor=self._owners[job.queue], gpus=job.num_gpus, name=f"job-{row}", **length
        )
        self._row_of[made.pk] = row

    def _left_s(self, job_id: str) -> float:
        return self.jobs[self._row_of[job_id]].run_s - self._ran_s[job_id]

    def _running(self) -> list[tuple[FakeAgent, str]]:
        """Return the jobs that run, each with its agent."""
        return [
            (agent, attempt.wanted.job_id)
            for agent in self.world.agents.values()
            for attempt in agent.attempts.values()
            if attempt.phase == "running" and attempt.wanted.wanted == "run" and attempt.wanted.job_id in self._row_of
        ]

    def _pass(self, seconds: float) -> None:
        """Let time pass on the clock and in the jobs, and the scheduler hear of it."""
        world = self.world
        for agent in world.agents.values():
            agent.read()
        running = self._running()
        world.clock.advance(seconds)
        for agent in world.agents.values():
            agent.work(seconds)
        for agent, job_id in running:
            self._ran_s[job_id] += seconds
            if self._left_s(job_id) <= 0:
                agent.end(job_id, cause="completed", exit_code=0)
                del self._row_of[job_id]
        for agent in world.agents.values():
            agent.send()
        reports = world.transport.receive_reports(world.engine.server_ids(), timeout_s=0)
        world.do(lambda: world.engine.take(reports))
        world.do(world.engine.tick)
