"""A cluster with something of everything, for tests that look at all pages, and one without anything."""

import base64
import json
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.utils import timezone

from frontend.pages.jobs.job.tabs import TABS
from scheduler.core.model.lifecycle import JobState
from scheduler.models import Cluster, Event, Job, Queue, Round, Scenario, ScenarioRun, WallLink
from scheduler.models.scenario import RunState
from scheduler.services.accounts.walls import wall_link_create
from scheduler.services.cluster.prices import prices_set
from scheduler.services.cluster.settings import cluster_row
from scheduler.services.queues.budgets import budget_set
from scheduler.whatif.scenarios import child
from scheduler.whatif.scenarios.bases import base_read
from tests.integration.api.conftest import World, world_make
from tests.support.pages.routes import page_path, page_patterns
from tests.support.rows.factories import job_make, sample_make
from tests.support.rows.files import file_write

LOG = (
    "".join(f"step {step} loss {3 - step / 100:.2f}\n" for step in range(200)) + "\x1b[31mERROR\x1b[0m out of memory\n"
)

PIXEL = base64.b64decode(
    b"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
)
FILES = {
    "out/last.pt": b"weights" * 100,
    "out/samples.png": PIXEL,
    "out/deep/two\nlines.txt": b"odd",
    "metrics.json": b'{"loss": 0.5}\n',
}


class Silent(child.ProgressWriter):
    """Tells nobody."""

    def say(self, message: dict[str, Any]) -> None:
        """Keep still."""


def full_world(folder: Path) -> World:
    """Return the world of the API's tests with jobs in every state, figures, a log and an answered question.

    Args:
        folder: Where files of runs are laid.
    """
    world, now = world_make(), timezone.now()
    owner, begun = world.users["member"], now - timedelta(hours=1)
    for state in set(JobState) - {JobState.RUNNING}:
        job_make(world.vision, state=state, owner=owner, at=begun, name=f"resnet-{state}")
    at_work = {"step": 40, "total_steps": 100, "steps_per_s": 2.5, "loss": 0.7}
    Job.objects.filter(state=JobState.RUNNING).update(**at_work, idle_since=now - timedelta(hours=2))
    Queue.objects.filter(pk=world.vision.pk).update(idle_action="suspend")
    for minutes in range(50, 0, -5):
        at, running = now - timedelta(minutes=minutes), world.job.pk
        sample_make("queue", world.vision.pk, at, held_gpus=3, quota_gpus=2)
        sample_make("cluster", 1, at, num_gpus=6, allocated_gpus=3, busy_gpus=2, broken_gpus=1, waiting_jobs=1)
        sample_make("server", world.server.pk, at, gpu_frac=[0.9, 0.5, 0.0, None])
        sample_make("job", running, at, step=60 - minutes, loss=minutes / 20, steps_per_s=2.0, cpu_frac=0.5)
    _decide(world)
    log = Path(settings.SHARED_DIR) / "attempts" / world.job.attempts.get().pk / f"log.{0:020d}"
    log.parent.mkdir(parents=True)
    log.write_text(LOG)
    for path, content in FILES.items():
        file_write(world.job, path, content)
    _answer(world.asked, folder)
    wall_link_create(actor=world.users["admin"], name="lobby", shows_names=True, at=now)
    told = {"before": {"policy": "srtf"}, "after": {"policy": "las"}}
    Event.objects.create(kind="settings", actor="ada", at=begun, reason="change", data=told)
    prices_set(
        actor=world.users["admin"], gpu_price=1.5, gpu_prices={"H100": 3.0}, currency="EUR", reason="contract", at=now
    )
    month = now.date().replace(day=1)
    budget_set(actor=world.users["admin"], queue=world.vision, month=month, amount=4000.0, reason="grant", at=now)
    cluster_row()
    Cluster.objects.update(round_number=1, round_finished_at=now)
    return world


def _decide(world: World) -> None:
    """Let the one round have started, preempted and kept waiting."""
    queued = Job.objects.filter(queue=world.vision, state=JobState.QUEUED).latest("number")
    evidence = {"needed_gpus": 9, "free_gpus": 2}
    Job.objects.filter(pk=queued.pk).update(
        wait_reason="no_capacity", wait_evidence=evidence, wait_position=1, wait_round=1
    )
    seat = {"server": world.server.number, "gpus": 1, "cpus": 1.0, "memory_bytes": 2**30}
    by = {"rule": "policy_order", "by_job": world.job.number, "evidence": {"needed_gpus": 1}}
    Round.objects.update(
        num_launched=1,
        num_waiting=1,
        decisions={
            "grants": [{"job": world.job.number, "state": "launched", "seats": [seat]}],
            "preemptions": [{"job": queued.number, **by}],
            "waiting": [{"job": queued.number, "position": 1, "reason": "no_capacity", "evidence": evidence}],
            "waiting_by_reason": {"no_capacity": 1},
        },
    )


def _answer(scenario: Scenario, folder: Path) -> None:
    """Give a scenario the results that a worker would find."""
    runs_answer(scenario, ScenarioRun.objects.filter(scenario=scenario), folder)


def runs_answer(scenario: Scenario, runs: Iterable[ScenarioRun], folder: Path) -> None:
    """Give some runs of a scenario the results that a worker would find."""
    base = base_read(scenario, at=scenario.created_at)
    path = folder / f"{scenario.pk}.json"
    path.write_text(json.dumps(base.content))
    Scenario.objects.filter(pk=scenario.pk).update(about=base.about)
    for run in runs:
        task = {"base": path, "variant": scenario.variants[run.variant], "seed": run.seed, "most_jobs": 10_000}
        figures = child.run(task, Silent())["figures"]
        run.state, run.figures, run.summary = RunState.COMPLETED, figures, figures["summary"]
        run.done_jobs = run.num_jobs = figures["summary"]["jobs"]
        run.save()


def page_arguments(world: World, role: str) -> dict[str, Any]:
    """Return what stands in paths: a job of the member, the queue that roles are held in, the caller's own token."""
    return {
        "job": f"J-{world.job.number}",
        "tab": "why",
        "attempt": 1,
        "name": "vision",
        "server_id": world.server.pk,
        "number": 1,
        "token_id": world.tokens[role].pk if role in world.tokens else 1,
        "scenario": world.asked.pk,
        "experiment": world.experiment.pk,
        "array": f"A-{world.job.number}",
        "webhook_id": world.webhook.pk,
        "username": "ada",
        "kind": "csv",
        "template": world.template.pk,
        "view": 1,
        "link_id": WallLink.objects.values_list("pk", flat=True).first() or 1,
        "event": Event.objects.filter(kind="settings").values_list("pk", flat=True).first() or 1,
    }


def tab_names() -> list[str]:
    """Return what the tabs of a job are called among the pages."""
    return [f"job-tab {tab}" for tab in TABS]


def page_paths(world: World, role: str) -> dict[str, str]:
    """Return the path of every page by its name, each tab of a job by its own."""
    paths: dict[str, str] = {}
    for name in page_patterns():
        if name == "job-tab":
            given = page_arguments(world, role)
            paths |= {f"job-tab {tab}": page_path(name, {**given, "tab": tab}) for tab in TABS}
        else:
            paths[name] = page_path(name, page_arguments(world, role))
    return paths


def page_paths_of_nothing() -> dict[str, str]:
    """Return the paths of the pages that are there before the first job, queue and server."""
    return {name: page_path(name, {}) for name, one in page_patterns().items() if not one.pattern.converters}
