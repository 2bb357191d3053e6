"""Users of a run: submit, cancel, pause, resume, change settings, drain servers, and note what was acknowledged."""

from collections.abc import Callable, Mapping
from random import Random

from django.contrib.auth.models import User
from django.db import InterfaceError, OperationalError

from scheduler.core.model.errors import Conflict, SchedulerError
from scheduler.core.model.lifecycle import TERMINAL, JobState
from scheduler.models import Job, Queue, Server
from scheduler.models.server import ServerState
from scheduler.services.cluster.servers import server_drain, server_undrain
from scheduler.services.cluster.settings import cluster_row, settings_change
from scheduler.services.jobs.cancel_suspend_resume import job_cancel, job_resume, job_suspend
from scheduler.services.jobs.check import job_check
from scheduler.services.jobs.submit import job_submit
from scheduler.services.secrets.store import secret_set
from tests.faults.control import Control, committed
from tests.faults.statements import Crash
from tests.faults.supervising import SECRET
from tests.faults.virtual import START, Trace
from tests.support.rows import factories

POLICIES = ("las", "srtf", "fifo")
MECHANISMS = ("tune", "proportional")
LIARS_FRAC = 0.4


class Workload:
    """What the users of one run do.

    Attributes:
        acknowledged: Ids of jobs whose submission was answered with success.
        more: Returns what the next job asks for beside the rest.
    """

    def __init__(
        self,
        *,
        control: Control,
        rng: Random,
        trace: Trace,
        takes_turns: bool = False,
        names_secrets: bool = False,
    ) -> None:
        """Make the users.

        Args:
            control: The scheduler.
            rng: Chance.
            trace: Gets what they do.
            takes_turns: Whether they share one queue, where no quota is taken back, and ask for little memory, so
                that many can be parked.
            names_secrets: Whether their jobs name a secret.
        """
        self._asked: dict[str, object] = {"memory": "1GiB"} if takes_turns else {}
        quotas = (("vision", 6),) if takes_turns else (("vision", 3), ("speech", 2), ("guests", 0))
        self.acknowledged: list[str] = []
        self.more: Callable[[], Mapping[str, object]] = dict
        self._control, self._rng, self._trace = control, rng, trace
        self._admin: User = factories.user_make("admin", admin=True)
        self._env = {"SIM_KEY": {"secret": "sim"}} if names_secrets else {}
        if names_secrets:
            secret_set(actor=self._admin, queue=None, name="sim", value=SECRET, at=START)
        root = factories.queue_make("root", quota_gpus=6, created_at=START)
        self._queues: list[Queue] = [
            factories.queue_make(f"root/{name}", parent=root, quota_gpus=quota, created_at=START)
            for name, quota in quotas
        ]

    def act(self) -> None:
        """Do one thing."""
        acts = [self.submit] * 5 + [self.cancel, self.suspend, self.resume, self.resume, self.settings, self.drain]
        self._do(self._rng.choice(acts))

    def _do(self, act: object) -> None:
        assert callable(act)
        try:
            with self._control.statements.watched(), committed():
                act()
        except SchedulerError as error:
            self._trace.add("user", "refused", type(error).__name__)
        except (OperationalError, InterfaceError, Crash) as error:  # the web process answers 500 or is gone
            self._trace.add("user", "unknown", type(error).__name__)
        self._control.check()

    def submit_one(self) -> None:
        """Submit one job of some kind."""
        self._do(self.submit)

    def submit_long(self) -> None:
        """Submit a job that trains for long and reads no requests."""
        self._do(self._submit_long)

    def _submit_long(self) -> None:
        command = ["sim", "100000", "0", "plain", "tame", "honest"]
        self._submit({"apiVersion": "v1", "name": "long", "queue": self._queues[0].name, "command": command})

    def submit(self) -> None:
        """Submit one job of some kind, as part of an act."""
        rng = self._rng
        exit_code = 0 if rng.random() < 0.85 else rng.choice([1, 2])
        command = [
            "sim",
            # Some outlast a lease, so that they are there to misbehave when their server is given up.
            str(rng.randrange(100, 240) if rng.random() < 0.3 else rng.randrange(6, 50)),
            str(exit_code),
            "runtime" if rng.random() < 0.8 else "plain",
            "stubborn" if rng.random() < 0.15 else "tame",
            "liar" if rng.random() < LIARS_FRAC else "honest",
        ]
        data = {
            "apiVersion": "v1",
            "name": "sim",
            "queue": rng.choice(self._queues).name,
            "command": command,
            "resources": dict[str, object](gpus=rng.choice([1, 1, 1, 2, 2, 3]), **self._asked),
            "schedule": {"priority": rng.randrange(100), "preemptible": rng.random() < 0.8},
            "checkpoint": {"grace": "3s"},
            "retry": {"max": 2},
            "env": self._env,
            **self.more(),
        }
        job = self._submit(data)
        self._trace.add("user", "submit", job.number, *command[1:])

    def _submit(self, data: Mapping[str, object]) -> Job:
        at = self._control.first.clock.now()
        spec = job_check(actor=self._admin, data=data)
        job = job_submit(actor=self._admin, spec=spec, at=at, ids=self._control.ids)
        self.acknowledged.append(job.pk)
        return job

    def _some_job(self) -> Job | None:
        jobs = list(Job.objects.exclude(state__in=sorted(TERMINAL)).order_by("number"))
        return self._rng.choice(jobs) if jobs else None

    def cancel(self) -> None:
        """Cancel a job."""
        job = self._some_job()
        if job is not None:
            self._trace.add("user", "cancel", job.number, job.state)
            job_cancel(actor=self._admin, job=job, at=self._control.first.clock.now())

    def suspend(self) -> None:
        """Pause a job."""
        job = self._some_job()
        if job is not None:
            self._trace.add("user", "suspend", job.number, job.state)
            job_suspend(actor=self._admin, job=job, at=self._control.first.clock.now())

    def resume(self) -> None:
        """Let the oldest paused job go on."""
        job = Job.objects.filter(wanted="suspend").exclude(state__in=sorted(TERMINAL)).order_by("number").first()
        if job is not None:
            self._trace.add("user", "resume", job.number, job.state)
            job_resume(actor=self._admin, job=job, at=self._control.first.clock.now())

    def settings(self) -> None:
        """Choose another policy and mechanism."""
        changes = {"policy": self._rng.choice(POLICIES), "mechanism": self._rng.choice(MECHANISMS)}
        self._trace.add("user", "settings", *changes.values())
        version = cluster_row().settings_version
        settings_change(
            actor=self._admin,
            changes=changes,
            expected_version=version,
            at=self._control.first.clock.now(),
            reason="test",
        )

    def drain(self) -> None:
        """Drain a server, or take one back."""
        server = self._rng.choice(list(Server.objects.order_by("number")))
        self._trace.add("user", "drain", server.name, server.state)
        at = self._control.first.clock.now()
        if server.state == ServerState.DRAINING:
            server_undrain(actor=self._admin, server=server, reason="test", at=at)
        elif not Server.objects.filter(state=ServerState.DRAINING).exists():
            server_drain(actor=self._admin, server=server, reason="test", at=at)

    def finish(self) -> None:
        """Take back whatever would keep the run from draining."""
        for job in Job.objects.filter(wanted="suspend").exclude(state__in=sorted(TERMINAL)).order_by("number"):
            with committed():
                try:
                    job_resume(actor=self._admin, job=job, at=self._control.first.clock.now())
                except Conflict:
                    continue
        for server in Server.objects.order_by("number"):
            with committed():
                try:
                    at = self._control.first.clock.now()
                    server_undrain(actor=self._admin, server=server, reason="test", at=at)
                except SchedulerError:
                    continue

    def unfinished(self) -> list[str]:
        """Return the jobs that have not ended."""
        rows = Job.objects.exclude(state__in=sorted(TERMINAL)).order_by("number")
        return [f"J-{job.number} {job.state} {job.wait_reason}" for job in rows if job.state != JobState.SUSPENDED]
