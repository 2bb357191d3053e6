"""Idle jobs: reports jobs that hold GPUs without using them, and stops them where their queue says so.

Decides when to look and writes the result; the rule is in ``scheduler.core.operations.idle``. The memory may be lost: a
restarted scheduler grants every job its whole idle time again.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Sum

from agents.protocol.signing import AttemptReport
from scheduler.core.model.lifecycle import JobState
from scheduler.core.operations.idle import SILENT_S, IdleAction, IdleRule, IdleStep, Seen, idle_step, seen_after
from scheduler.live.steps import NOT_DUE, for_each
from scheduler.models import Job, Lease
from scheduler.notify import request_round, touch_job
from scheduler.services.jobs.state import job_event

EVERY_S = 10.0


@dataclass(slots=True)
class Idle:
    """What one engine has observed. All times are seconds of ``Clock.mono_s``.

    Attributes:
        seen: Job id to what its reports said.
        cores: Job id to the cores of its leases, as of the last check.
        checked_s: When that was.
    """

    seen: dict[str, Seen] = field(default_factory=dict)
    cores: dict[str, float] = field(default_factory=dict)
    checked_s: float = -1e18

    def take(self, reports: Iterable[AttemptReport], job_of: dict[str, str], *, now_s: float) -> None:
        """Note what one server reports of its attempts; a gang is idle only if all its servers say so."""
        for report in reports:
            job_id = job_of[report.attempt_id]
            if report.phase != "running" or report.gpu_frac is None or report.cpu_frac is None:
                self.seen.pop(job_id, None)
                continue
            self.seen[job_id] = seen_after(
                self.seen.get(job_id),
                now_s=now_s,
                gpu_frac=report.gpu_frac,
                # Unknown cores count as many, so that no job is stopped for them.
                busy_cores=report.cpu_frac * self.cores.get(job_id, 1e9),
                step=report.step,
            )

    def check(self, *, at: datetime, now_s: float) -> object:
        """Check every running job, at most once in EVERY_S seconds."""
        if now_s - self.checked_s < EVERY_S:
            return NOT_DUE
        self.checked_s = now_s
        running = Job.objects.filter(pk__in=list(self.seen), state=JobState.RUNNING, wanted="run")
        jobs = {job.pk: job for job in running.select_related("queue").defer("spec")}
        self.seen = {pk: seen for pk, seen in self.seen.items() if pk in jobs}
        held = Lease.objects.filter(closed_at=None, attempt__job_id__in=list(jobs)).values_list("attempt__job_id")
        self.cores = dict(held.annotate(cores=Sum("cpus")).order_by())
        heard = [jobs[pk] for pk in sorted(jobs) if now_s - self.seen[pk].heard_s <= SILENT_S]
        for_each(heard, lambda job: _treat(job, self.seen[job.pk], at=at, now_s=now_s))
        return None


def _treat(job: Job, seen: Seen, *, at: datetime, now_s: float) -> None:
    is_told = job.idle_since is not None
    if job.queue.idle_after_s is None:
        if is_told:
            _forget(job)
        return
    rule = IdleRule(after_s=job.queue.idle_after_s, action=IdleAction(job.queue.idle_action))
    step = idle_step(seen, rule, is_told=is_told, now_s=now_s)
    if step is IdleStep.FORGET:
        _forget(job)
    elif step is IdleStep.TELL:
        _tell(job, rule, idle_s=now_s - seen.used_s, at=at)
    elif step is IdleStep.ACT:
        _act(job, rule, at=at)


def _forget(job: Job) -> None:
    Job.objects.filter(pk=job.pk).update(idle_since=None)
    touch_job(job.pk)


def _tell(job: Job, rule: IdleRule, *, idle_s: float, at: datetime) -> None:
    data = {"idle_s": round(idle_s, 1), "num_gpus": job.num_gpus}
    if rule.action is not IdleAction.TELL:
        data |= {"grace_s": rule.grace_s}
    job_event(
        job=job,
        kind="job_idle",
        at=at,
        actor="scheduler",
        reason=rule.action,
        data=data,
        changes={"idle_since": at - timedelta(seconds=idle_s)},
    )


@transaction.atomic
def _act(job: Job, rule: IdleRule, *, at: datetime) -> None:
    """Set ``wanted`` as its owner would; the next round asks the attempt to end."""
    job_event(
        job=job,
        kind="job_wanted",
        at=at,
        actor="scheduler",
        reason=rule.action,
        data={"idle_s": round((at - (job.idle_since or at)).total_seconds(), 1)},
        changes={"wanted": rule.action.value},
    )
    request_round("idle")
