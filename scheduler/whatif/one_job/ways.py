"""Candidate changes to the request of a waiting job, the changes that affect its computation least first.

None changes the server type or the time limit: rounds consider neither.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from django.contrib.auth.models import User

from scheduler.core.model.errors import SpecInvalid
from scheduler.core.model.tables import JobTable
from scheduler.core.spec.launch import LaunchPer
from scheduler.core.spec.spec import JobSpec
from scheduler.models import Job, Queue
from scheduler.models.queue import Role
from scheduler.selectors.visibility import access_of, queues_submittable
from scheduler.services.jobs.change import JobChange, spec_changed
from scheduler.whatif.one_job.present import Present, asked_values, stored_values

MOST_QUEUES = 4
FEW_GPUS = 8
MOST_SIZES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One candidate change."""

    key: str
    title: str
    change: JobChange
    one: JobTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A waiting job, its row, and the cluster."""

    job: Job
    spec: JobSpec
    row: int
    present: Present
    user: User

    def options(self, key: str, changes: list[tuple[str, JobChange]]) -> list[Option]:
        """Return the changes that give a valid spec."""
        return [
            Option(key=key, title=title, change=change, one=one)
            for title, change in changes
            if (one := self._one(change)) is not None
        ]

    def _one(self, change: JobChange) -> JobTable | None:
        try:
            spec = spec_changed(self.spec, change)
        except SpecInvalid:
            return None
        values = stored_values(self.job)
        queue_pk = self.job.queue_id
        if spec.queue != self.spec.queue:
            queue_pk = Queue.objects.values_list("pk", flat=True).get(name=spec.queue)
        smoke_due = bool(values["smoke_due"]) and spec.resources.gpus > 1
        asked = asked_values(values, spec, queue_pk=queue_pk, profile_pk=values["profile_id"], smoke_due=smoke_due)
        return self.present.one({**asked, "total_steps": values["total_steps"]})


def families(question: Question) -> Iterator[list[Option]]:
    """Yield the candidates of one kind after the other, in each kind the smallest change first."""
    resources = question.spec.resources
    yield question.options("queue", [(f"Move it to {name}", {"queue": name}) for name in _other_queues(question)])
    is_gang = question.spec.starts_per is not LaunchPer.JOB
    if is_gang:
        servers = [
            count
            for count in (resources.max_servers + 1, 2 * resources.max_servers, resources.gpus)
            if resources.max_servers < count <= min(resources.gpus, len(question.present.tables.servers))
        ]
        title = "Let its GPUs be on up to {} servers"
        yield question.options("max_servers", [(title.format(n), {"max_servers": n}) for n in sorted(set(servers))])
    yield question.options("resources", _by_profile(question.spec))
    if resources.min_gpus is not None:
        bounds = sorted({resources.min_gpus // 2, 1} - {0, resources.min_gpus}, reverse=True)
        title = "Let it begin with {} instead of {}"
        yield question.options(
            "min_gpus", [(title.format(_gpus(n), resources.min_gpus), {"min_gpus": n}) for n in bounds]
        )
    if not question.job.smoke_due and not (is_gang and question.job.first_started_at):
        title = "Ask for {} instead of {}"
        sizes = _sizes(question)
        yield question.options("gpus", [(title.format(_gpus(n), resources.gpus), {"gpus": n}) for n in sizes])


def _by_profile(spec: JobSpec) -> list[tuple[str, JobChange]]:
    """Return changes that leave cores and memory to the scheduler."""
    cpus, memory = spec.resources.cpus, spec.resources.memory_bytes
    asked = spec.to_json()["resources"]
    ways: list[tuple[str, JobChange]] = []
    if cpus is not None:
        ways.append((f"Let the scheduler choose its cores instead of {asked['cpus']}", {"cpus": "auto"}))
    if memory is not None:
        ways.append((f"Let the scheduler choose its memory instead of {asked['memory']}", {"memory": "auto"}))
    if cpus is not None and memory is not None:
        ways.append(("Let the scheduler choose its cores and its memory", {"cpus": "auto", "memory": "auto"}))
    return ways


def _sizes(question: Question) -> list[int]:
    """Return smaller numbers of GPUs, largest first: all when few, else the free GPUs of servers, and halves."""
    gpus, tables = question.spec.resources.gpus, question.present.tables
    if gpus <= FEW_GPUS:
        return list(range(gpus - 1, 0, -1))
    free = tables.servers.num_gpus - np.bincount(
        tables.held.server, weights=tables.held.num_gpus, minlength=len(tables.servers)
    )
    halves = {gpus >> shift for shift in range(1, gpus.bit_length())}
    return sorted({size for size in {*free.astype(int).tolist(), *halves} if 0 < size < gpus}, reverse=True)[
        :MOST_SIZES
    ]


def _other_queues(question: Question) -> list[str]:
    """Return queues that the user and the owner may submit to, most idle quota first."""
    tables, job = question.present.tables, question.job
    held = np.bincount(tables.jobs.queue[tables.held.job], weights=tables.held.num_gpus, minlength=len(tables.queues))
    idle = dict(zip(tables.queues.queue_id.tolist(), (tables.queues.quota_gpus - held).tolist(), strict=True))
    owner = access_of(job.owner)
    found = [
        queue
        for queue in queues_submittable(question.user)
        if queue.pk != job.queue_id and owner.at_least(queue.pk, Role.MEMBER)
    ]
    found.sort(key=lambda queue: (-idle.get(queue.pk, 0.0), queue.name))
    return [queue.name for queue in found[:MOST_QUEUES]]


def _gpus(count: int) -> str:
    return f"{count} GPU" if count == 1 else f"{count} GPUs"
