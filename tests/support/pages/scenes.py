"""What pages show only of some rows: a job that prepares or reports nothing, an array, a sweep, a drained server.

They are put beside the world of ``world.py``, for tests that look at pages in a browser.
"""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.utils import timezone

from scheduler.core.model.lifecycle import EndCause, JobState
from scheduler.core.model.plan import WaitReason
from scheduler.models import Attempt, Configuration, Environment, Job, Server, ServerEnvironment
from scheduler.models.experiment import ExperimentState
from scheduler.models.server import EnvironmentState, ServerState
from scheduler.services.jobs.state import job_transition
from tests.integration.api.conftest import World
from tests.support.rows.experiments import experiment_make
from tests.support.rows.factories import GIB, job_make, sample_make, server_make
from tests.support.rows.files import job_directory

SCENES = (
    "scene preparing",
    "scene environment failed",
    "scene plain",
    "scene plain metrics",
    "scene no files",
    "scene waiting",
    "scene array",
    "scene sweep",
    "scene form of many fields",
    "scene found",
    "scene not found",
    "scene requests",
    "scene answer to a request",
    "scene usage",
)
SWEPT: dict[str, list[Any]] = {
    "optimizer": ["adamw", "sgd"],
    "learning_rate": [0.1, 0.01, 0.001],
    "weight_decay": [0.0, 0.05],
    "warmup_steps": [500, 2000],
    "augmentation": ["randaugment-m9-mstd0.5", "none"],
    "dropout": [0.0, 0.1],
}
BUILD_LOG = "Resolved 41 packages in 1.2s\n" + "".join(f" + package-{number}==1.{number}.0\n" for number in range(14))


def scene_paths(world: World) -> dict[str, str]:
    """Make the rows; return the path of each scene by its name."""
    now = timezone.now()
    drained = server_make("server-02", rack="r2", last_report_at=now, state=ServerState.DRAINING)
    drained.state_reason, drained.state_changed_at = "new power supply", now - timedelta(hours=3)
    drained.save()
    busy = server_make("server-03", rack="r2", gpus=32, last_report_at=now)
    preparing, failed = _prepares(world, now)
    plain, array = _reports_nothing(world, busy, now), _array(world, busy, now)
    many = _fields(world, array, plain)
    return dict(
        zip(
            SCENES,
            (
                f"/jobs/J-{preparing.number}",
                f"/jobs/J-{failed.number}",
                f"/jobs/J-{plain.number}",
                f"/jobs/J-{plain.number}/metrics",
                f"/jobs/J-{preparing.number}/files",
                f"/jobs/J-{array.number + 6}/why",
                f"/arrays/A-{array.number}",
                f"/experiments/{_sweep(world, busy, now)}",
                f"/jobs/new?clone=J-{many.number}",
                "/search?q=re",
                "/search?q=nothing-is-called-so",
                "/queues/vision?tab=requests",
                f"/queues/vision?tab=quota&request={world.quota_request.pk}",
                "/queues/vision?tab=usage",
            ),
            strict=True,
        )
    )


def _prepares(world: World, now: datetime) -> tuple[Job, Job]:
    """Return a job of which the environment is being built, and one of which it could not be."""
    made = []
    for digest in ("e71b52", "5c0ffe"):
        files = {"requirements.txt": "einops\nflash-attn==2.7.0\n"}
        row = {"kind": "requirements", "source": "requirements.txt", "files": files, "created_at": now}
        made.append(Environment.objects.create(pk=digest.ljust(64, "0"), queue=world.vision, **row))
    at, owner = now - timedelta(minutes=5), world.users["member"]
    cause = "No solution found: flash-attn 2.7.0 needs torch 2.4 or newer, and torch 2.3.1 is asked for."
    building: dict[str, Any] = {"state": EnvironmentState.BUILDING, "done": 9, "total": 41, "tail": BUILD_LOG}
    for environment, columns in zip(
        made, (building, {"state": EnvironmentState.FAILED, "detail": cause, "tail": f"error: {cause}\n"}), strict=True
    ):
        ServerEnvironment.objects.create(
            environment=environment, server=world.server, asked_at=at, changed_at=at, **columns
        )
    evidence = {"needed_gpus": 1, "ready_servers": 0, "servers": 1}
    waits: dict[str, Any] = {
        "wait_reason": WaitReason.PREPARING_ENVIRONMENT,
        "wait_evidence": evidence,
        "wait_position": 1,
    }
    job_make(world.vision, owner=owner, at=at, name="det-r101", environment=made[0], **waits)
    second = job_make(world.vision, owner=owner, at=at, name="det-r50", environment=made[0], **waits)
    failed = job_make(world.vision, owner=owner, at=at, name="flash-vit", environment=made[1])
    ended = {"end_cause": EndCause.ENVIRONMENT, "end_detail": cause}
    job_transition(job=failed, to=JobState.FAILED, at=now, actor="scheduler", reason="environment", changes=ended)
    return second, failed


def _reports_nothing(world: World, server: Server, now: datetime) -> Job:
    """Return a running job that has only a log."""
    begun = now - timedelta(minutes=30)
    owner = world.users["member"]
    job = job_make(world.vision, state=JobState.RUNNING, owner=owner, server=server, at=begun, name="xgb-folds")
    job_directory(job)
    Attempt.objects.filter(job=job).update(started_at=begun)
    log = Path(settings.SHARED_DIR) / "attempts" / job.attempts.get().pk / f"log.{0:020d}"
    log.parent.mkdir(parents=True)
    log.write_text("".join(f"fold {number}/40 auc 0.9{number:02}\n" for number in range(40)))
    for minutes in range(25, 0, -1):
        at = now - timedelta(minutes=minutes)
        sample_make("job", job.pk, at, cpu_frac=0.4 + minutes % 5 / 10, memory_bytes=GIB, gpu_frac=0.1)
    return job


def _array(world: World, server: Server, now: datetime) -> Job:
    """Return the first job of an array of twelve in many states."""
    states = [*[JobState.COMPLETED] * 4, JobState.FAILED, JobState.RUNNING, *[JobState.QUEUED] * 5, JobState.CANCELLED]
    at, owner = now - timedelta(hours=2), world.users["member"]
    evidence = {"needed_gpus": 1, "free_gpus": 0}
    jobs = []
    for index, state in enumerate(states):
        columns: dict[str, Any] = {"array_index": index, "name": f"detection-seed-study-{index}"}
        if state == JobState.COMPLETED:
            columns |= {"step": 90_000, "loss": 0.31 + index / 100, "executed_s": 3_600.0, "attained_gpu_s": 14_400.0}
        if state == JobState.FAILED:
            columns |= {"end_detail": "The process ended with exit code 1: CUDA out of memory.", "step": 1_200}
        if state == JobState.QUEUED:
            columns |= {
                "wait_reason": WaitReason.NO_CAPACITY,
                "wait_evidence": evidence,
                "wait_round": 1,
                "wait_position": index,
            }
        jobs.append(job_make(world.vision, state=state, owner=owner, server=server, at=at, **columns))
    Job.objects.filter(pk__in=[job.pk for job in jobs]).update(array_number=jobs[0].number, array_most=2)
    return jobs[0]


def _sweep(world: World, server: Server, now: datetime) -> str:
    """Return a sweep of six parameters, of which some have results."""
    owner = world.users["member"]
    experiment = experiment_make(
        world.vision, owner, name="detection-sweep", space={name: {"choices": it} for name, it in SWEPT.items()},
        sampler="grid", size=24, total_steps=None, feedback_steps=None, target_loss=None,
        state=ExperimentState.RUNNING, created_at=now - timedelta(hours=2),
    )  # fmt: skip
    experiment.configurations.all().delete()
    states = [JobState.COMPLETED, JobState.COMPLETED, JobState.FAILED, JobState.RUNNING, JobState.QUEUED]
    for number in range(1, 25):
        state = states[number % len(states)]
        told: dict[str, Any] = {} if state == JobState.QUEUED else {"step": 1_000 * number, "loss": 1.5 / number}
        job = job_make(world.vision, state=state, owner=owner, server=server, name=f"detection-sweep-{number}", **told)
        values = {name: choices[number % len(choices)] for name, choices in SWEPT.items()}
        curve = [[step * 200 * number, 1.5 / number + 1 / step] for step in range(1, 6)] if told else []
        Configuration.objects.create(experiment=experiment, number=number, job=job, values=values, curve=curve)
    return experiment.pk


def _fields(world: World, array: Job, before: Job) -> Job:
    """Return a job of which the spec fills the rarer fields of the form."""
    job = job_make(world.vision, owner=world.users["member"], name="evaluation")
    job.spec |= {
        "array": "0-15%4",
        "depends_on": [{f"A-{array.number}": "completed"}, f"J-{before.number}"],
        "python": {"requirements": "requirements.txt"},
    }
    job.save()
    return job
