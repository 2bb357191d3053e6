"""Simulates a week of a cluster in about a minute of CPU time, with the product's own scheduler on a virtual clock.

Philly-like jobs arrive, run on simulated servers, are preempted, fail, are cancelled. Services, rounds and reports are
the product's, so every page shows what it would after a real week. No training is computed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth import get_user_model

from agents.config import AgentConfig
from agents.simulated.server import SimulatedServer, chance
from scheduler.core.model.lifecycle import TERMINAL
from scheduler.core.operations.failures import OWN, FailureClass
from scheduler.core.spec.spec import JobSpec
from scheduler.live.engine import Engine
from scheduler.live.observed.fairness import Fairness
from scheduler.live.reports.gpu_use import Use
from scheduler.live.rounds.run_round import round_run
from scheduler.management.virtual_ports import VirtualBell, virtual_ports
from scheduler.models import Job
from scheduler.notify import use_bell
from scheduler.services.jobs.cancel_suspend_resume import job_cancel
from scheduler.services.jobs.experiments import experiment_submit
from scheduler.services.jobs.submit import job_submit
from scheduler.simulator.jobs import SimJob
from scheduler.simulator.workloads.philly import philly_like

SERVERS, GPUS_A_SERVER = 4, 8
CPUS_A_SERVER, MEMORY_BYTES_A_SERVER = 64, 512 * 2**30
GPUS = SERVERS * GPUS_A_SERVER
WEEK = timedelta(days=7)
# Longest time between rounds; events ask for rounds of their own.
BEAT_S = 3_600.0
# Longest step of the clock.
MOST_STEP_S = 1_800.0
# After so long every server reports, before only servers with news, and the engine does what no event asks for, such as
# samples. Queues are compared less often: that reads all jobs.
HEARTBEAT_S, FAIRNESS_S = 900.0, 3_600.0
SETTLE_S = 2.0
SETTLE_TURNS = 6
# One job in so many is cancelled by its owner, so long after its submission.
CANCELLED_ONE_IN, CANCELLED_AFTER_S = 25, 5_400.0
# The heat map of the last half hour has a cell for every 20 s, so all servers report more often then.
FINE_S, FINE_STEP_S, FINE_HEARTBEAT_S = 1_900.0, 19.0, 60.0
# A search over learning rates starts so long before the end, to have ended by then.
SEARCH_BEFORE_END_S, SEARCH_STEPS, SEARCH_STEPS_PER_S = 40 * 3_600.0, 60_000, 2.4
# The first 2.4 days of the workload are skipped, so that the week ends on a working day with waiting jobs.
NUM_JOBS, LOAD, SHORT_SHARE, SEED, SKIPPED_S = 520, 1.15, 0.4, 12, 2.4 * 86_400

# Name of a training and its steps a second on one GPU.
MODELS = (
    ("resnet50-imagenet", 3.1),
    ("bert-base-pretrain", 1.4),
    ("deepspeech2", 0.9),
    ("unet-segmentation", 2.2),
    ("transformer-translate", 1.8),
    ("mobilenet-distill", 5.6),
    ("gnn-products", 4.3),
)
LINES = {
    FailureClass.INCORRECT_INPUT: "ValueError: could not read shard 17: expected 3 channels, found 1",
    FailureClass.SYNTAX: "SyntaxError: '(' was never closed",
    FailureClass.IMPORT: "ModuleNotFoundError: No module named 'apex'",
    FailureClass.GPU_OOM: "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
    FailureClass.CPU_OOM: "RuntimeError: DataLoader worker is killed by signal: Killed",
    FailureClass.SEMANTIC: "RuntimeError: mat1 and mat2 shapes cannot be multiplied (64x512 and 2048x1000)",
    FailureClass.NETWORK: "RuntimeError: [Rank 3] Watchdog caught collective operation timeout",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Team:
    """A queue and its users, who submit jobs in turn."""

    queue: str
    users: tuple[str, ...]


def spec_of(job: SimJob, *, number: int, queue: str) -> dict[str, Any]:
    """Return the spec of a job of the week; ``env`` holds what the simulated server acts out."""
    name, rate = MODELS[int(chance(f"model {number}") * len(MODELS))]
    rate = round(rate * (0.8 + 0.4 * chance(f"rate {number}")), 3)
    steps = max(1, round(job.run_s * rate))
    env = {"SIMULATED_STEPS": str(steps), "SIMULATED_STEPS_PER_S": str(rate)}
    if job.failures:
        failure = FailureClass(job.failures[0].cause)
        said = failure if failure in OWN else FailureClass.NETWORK
        env |= {
            "SIMULATED_FAILS_AT_STEP": str(max(1, min(steps - 1, round(job.failures[0].after_s * rate)))),
            "SIMULATED_FAILURE": said,
            "SIMULATED_FAILURE_LINE": LINES[said],
        }
    return {
        "apiVersion": "v1",
        "name": f"{name}-{number}",
        "queue": queue,
        "command": ["python", "train.py", "--model", name],
        "env": env,
        "resources": {"gpus": job.num_gpus, "cpus": 4 * job.num_gpus, "memory": f"{32 * job.num_gpus}GiB"},
        "schedule": {"priority": 50},
        "retry": {"max": 2},
        "progress": {"total_steps": steps} if number % 4 else {},
        "labels": {"model": name},
    }


def search_of(*, queue: str) -> dict[str, Any]:
    """Return the request of a search; the simulated servers decide which learning rate is good."""
    return {
        "job": {
            "apiVersion": "v1",
            "name": "resnet50-rate",
            "queue": queue,
            "command": ["python", "train.py", "--model", "resnet50", "--learning-rate", "{learning_rate}"],
            "env": {
                "SIMULATED_STEPS": str(SEARCH_STEPS),
                "SIMULATED_STEPS_PER_S": str(SEARCH_STEPS_PER_S),
                "SIMULATED_LEARNING_RATE": "{learning_rate}",
            },
            "resources": {"gpus": 1, "cpus": 4, "memory": "32GiB"},
            "progress": {"total_steps": SEARCH_STEPS},
            "labels": {"model": "resnet50"},
        },
        "space": {"learning_rate": {"low": 0.0001, "high": 0.1, "log": True}},
        "sampler": "random",
        "seed": 4,
        "configurations": 12,
        "total_steps": SEARCH_STEPS,
        "feedback_steps": SEARCH_STEPS // 8,
        "target_loss": 0.5,
    }


class _NoUse(Use):
    """Notes nothing: reports are too far apart to tell how busy GPUs were; ``load_week`` writes it at the end."""

    def take(self, attempt_id: str, *, at_s: float, gpu_frac: float | None) -> None:
        """Do nothing."""


class Week:
    """The cluster on its virtual clock."""

    def __init__(self, *, until: datetime, tells: Callable[[str], None]) -> None:
        """Begin a week before ``until``; ``tells`` gets lines about the progress."""
        self.ports, self.clock, self._transport = virtual_ports(until - WEEK)
        self._tells = tells
        self._bell = VirtualBell()
        self._engine = Engine(self.ports)
        self.servers: list[SimulatedServer] = []
        self._engine.telemetry.use, self._engine.fairness = _NoUse(), Fairness(every_s=FAIRNESS_S)
        self._ticked_s = -HEARTBEAT_S  # when the engine last did what is due
        self._planned_s = -BEAT_S  # when the last round was made
        self._cancels: list[tuple[datetime, Job]] = []
        self._has_search = False

    def add_server(self, config: AgentConfig, says: Callable[[str, str], int]) -> None:
        """Add a registered server."""
        self.servers.append(SimulatedServer(config, self._transport, self.clock, says=says))

    def live(self, teams: tuple[Team, ...], *, until: Callable[[], datetime]) -> None:
        """Submit the jobs of the week at their times, and let time pass until the clock is where ``until`` says."""
        use_bell(self._bell)
        jobs = philly_like(
            num_jobs=NUM_JOBS, cluster_gpus=GPUS, load=LOAD, seed=SEED, short_share=SHORT_SHARE,
            num_queues=len(teams), failures=True,
        )  # fmt: skip
        coming = [job for job in jobs if job.num_gpus <= GPUS_A_SERVER and job.arrival_s >= SKIPPED_S]
        begun, place, day = self.clock.now() - timedelta(seconds=SKIPPED_S), 0, 0
        try:
            self._pass(1.0, is_fine=True)
            while self.clock.now() < until():
                passed_s = (self.clock.now() - begun).total_seconds()
                while place < len(coming) and coming[place].arrival_s <= passed_s:
                    self._submit(coming[place], place + 1, teams[coming[place].queue])
                    place += 1
                left_s = (until() - self.clock.now()).total_seconds()
                if left_s <= SEARCH_BEFORE_END_S and not self._has_search:
                    self._search(teams[1])
                self._cancel_due()
                self._settle()
                next_s = coming[place].arrival_s - passed_s if place < len(coming) else MOST_STEP_S
                left_s = (until() - self.clock.now()).total_seconds()
                end_s = min(server.next_end_s() for server in self.servers)
                step_s = max(1.0, min(MOST_STEP_S, next_s, end_s, left_s))
                if left_s - step_s >= FINE_S:
                    self._pass(step_s)
                else:
                    self._pass_finely(step_s)
                if self.clock.now().day != day:
                    day = self.clock.now().day
                    self._tells(f"  {self.clock.now():%A}: {place} jobs so far")
            self._engine.tick()
        finally:
            use_bell(None)

    def _submit(self, job: SimJob, number: int, team: Team) -> None:
        actor = get_user_model().objects.get(username=team.users[job.owner % len(team.users)])
        spec = JobSpec.parse(spec_of(job, number=number, queue=team.queue))
        made = job_submit(actor=actor, spec=spec, at=self.clock.now(), ids=self.ports.ids)
        if number % CANCELLED_ONE_IN == 0:
            self._cancels.append((self.clock.now() + timedelta(seconds=CANCELLED_AFTER_S), made))

    def _search(self, team: Team) -> None:
        actor = get_user_model().objects.get(username=team.users[0])
        data = search_of(queue=team.queue)
        experiment_submit(actor=actor, data=data, at=self.clock.now(), ids=self.ports.ids)
        self._has_search = True

    def _cancel_due(self) -> None:
        due = [job for at, job in self._cancels if at <= self.clock.now()]
        self._cancels = [(at, job) for at, job in self._cancels if at > self.clock.now()]
        for job in due:
            job.refresh_from_db()
            if job.state not in TERMINAL:
                job_cancel(actor=job.owner, job=job, at=self.clock.now())

    def _settle(self) -> None:
        """Let seconds pass until no round is asked for and no job starts: preempted jobs must leave first."""
        for _ in range(SETTLE_TURNS):
            if self._bell.trigger or self.clock.mono_s() - self._planned_s >= BEAT_S:
                self._round(self._bell.trigger or "beat")
            if not self._hear():
                return
            self.clock.advance(SETTLE_S)
            self._work(SETTLE_S, all_report=False)

    def _round(self, trigger: str) -> None:
        self._planned_s = self.clock.mono_s()
        self._bell.round_begins()
        round_run(self.ports, trigger)

    def _hear(self) -> bool:
        """Hand the servers their messages; return whether any of them has something new to do."""
        news = [
            server.receive(message)
            for server in self.servers
            for message in self._transport.receive_desired(server.server_id)
        ]
        return any(news)

    def _pass(self, seconds: float, *, is_fine: bool = False) -> None:
        self.clock.advance(seconds)
        silent_s = self.clock.mono_s() - self._ticked_s
        self._work(seconds, all_report=is_fine or silent_s >= HEARTBEAT_S)
        if silent_s >= (FINE_HEARTBEAT_S if is_fine else HEARTBEAT_S):
            self._ticked_s = self.clock.mono_s()
            self._engine.tick()

    def _pass_finely(self, seconds: float) -> None:
        """Let time pass in small steps, after each of which every server reports."""
        while seconds > 0:
            part_s = min(FINE_STEP_S, seconds)
            self._pass(part_s, is_fine=True)
            seconds -= part_s

    def _work(self, seconds: float, *, all_report: bool) -> None:
        for server in self.servers:
            if server.work(seconds) or all_report:
                server.send()
        if reports := self._transport.receive_reports((), timeout_s=0):
            self._engine.take(reports)
