"""The live engine with fake ports: one cluster whose time passes second by second, as a test says."""

import contextlib
from collections.abc import Callable
from typing import Any, TypeVar

from django.contrib.auth.models import User
from django.test import TestCase

from agents.telemetry import Probe
from scheduler.core.model.lifecycle import JobState
from scheduler.live.engine import Engine
from scheduler.live.rounds.run_round import round_run
from scheduler.models import Attempt, Job, Queue, Round, Server
from scheduler.models.server import ServerState
from scheduler.notify import use_bell
from scheduler.services.cluster.settings import cluster_row, settings_change
from scheduler.services.jobs.check import job_check
from scheduler.services.jobs.submit import job_submit
from tests.support.live.ports import FakeAgent, MemoryBell, memory_ports
from tests.support.rows import factories

T = TypeVar("T")


class World:
    """Scheduler, servers and users of one test. What a transaction leaves for after its commit is done at once."""

    def __init__(self) -> None:
        self.ports, self.clock, self.transport, self.frames = memory_ports()
        self.bell = MemoryBell()
        use_bell(self.bell)
        cluster_row()
        self.engine = Engine(self.ports)
        self.agents: dict[str, FakeAgent] = {}
        self.admin = factories.user_make("admin", admin=True)

    def server(self, name: str, *, slots: int = 2, probe: Probe | None = None) -> FakeAgent:
        """Register a server and let its agent report until it is up."""
        row = factories.server_make(name, gpus=0, state=ServerState.JOINING, num_cpus=0, memory_bytes=0)
        agent = FakeAgent(row, self.transport, self.clock, slots=slots, probe=probe)
        self.agents[name] = agent
        self.pass_time(3)
        return agent

    def queue(self, name: str, *, quota_gpus: int = 4, **columns: Any) -> Queue:
        """Make a queue."""
        return factories.queue_make(name, quota_gpus=quota_gpus, **columns)

    def submit(self, queue: str = "vision", *, actor: User | None = None, gpus: int = 1, **spec: Any) -> Job:
        """Submit a job by the real service."""
        data = {
            "apiVersion": "v1",
            "name": "train",
            "queue": queue,
            "command": ["true"],
            "resources": {"gpus": gpus},
            **spec,
        }
        actor = actor or self.admin
        return self.do(
            lambda: job_submit(
                actor=actor, spec=job_check(actor=actor, data=data), at=self.clock.now(), ids=self.ports.ids
            )
        )

    def settings(self, **changes: Any) -> None:
        """Change settings by the real service."""
        version = cluster_row().settings_version
        self.do(
            lambda: settings_change(
                actor=self.admin, changes=changes, expected_version=version, at=self.clock.now(), reason="test"
            )
        )

    def do(self, call: Callable[[], T]) -> T:
        """Run something as a request would: what it leaves for after the commit is done after it."""
        with TestCase.captureOnCommitCallbacks(execute=True):
            return call()

    def pass_time(self, seconds: int, *, silent: tuple[str, ...] = (), step_s: int = 1) -> None:
        """Let time pass in steps; the agents in ``silent`` neither read nor report."""
        for _ in range(0, seconds, step_s):
            self.clock.advance(float(step_s))
            for name, agent in self.agents.items():
                if name not in silent:
                    self._agent_turn(agent, float(step_s))
            self.do(self._engine_turn)
            self.rounds()

    def _agent_turn(self, agent: FakeAgent, step_s: float) -> None:
        if not self.transport.is_down:
            agent.read()
        agent.work(step_s)
        agent.send()

    def _engine_turn(self) -> None:
        with contextlib.suppress(ConnectionError):
            self.engine.turn(self.engine.server_ids(), timeout_s=0)

    def rounds(self) -> None:
        """Run the rounds that were asked for."""
        while self.bell.triggers:
            self.round(self.bell.triggers[0])

    def round(self, trigger: str = "beat") -> Round | None:
        """Run one round as the worker's task does."""
        self.bell.round_begins()
        return self.do(lambda: round_run(self.ports, trigger))

    def until(
        self, what: Callable[[], bool], *, within_s: int = 120, silent: tuple[str, ...] = (), step_s: int = 1
    ) -> int:
        """Let time pass until something holds; return the seconds it took. Long steps are for many minutes."""
        for passed_s in range(0, within_s, step_s):
            if what():
                return passed_s
            self.pass_time(step_s, silent=silent, step_s=step_s)
        raise AssertionError(f"not within {within_s} s: {[(job.number, job.state) for job in Job.objects.all()]}")

    def state(self, job: Job) -> JobState:
        """Return the state of a job as it is now."""
        return JobState(Job.objects.values_list("state", flat=True).get(pk=job.pk))

    def until_state(self, job: Job, state: JobState, *, within_s: int = 120) -> int:
        """Let time pass until a job is in a state."""
        return self.until(lambda: self.state(job) == state, within_s=within_s)

    def agent_of(self, job: Job) -> FakeAgent:
        """Return the agent that has the open attempt of a job."""
        name = Server.objects.get(leases__attempt__job=job, leases__closed_at=None).name
        return self.agents[name]

    def attempts(self, job: Job) -> list[Attempt]:
        """Return the attempts of a job, oldest first."""
        return list(Attempt.objects.filter(job=job).order_by("number"))
