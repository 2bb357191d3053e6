"""The list of jobs with its filters, one job as a row, one job in full."""

import re
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q, QuerySet
from django.utils import timezone

from scheduler.core.model.lifecycle import TERMINAL, JobState, phase_of
from scheduler.core.model.plan import WaitReason
from scheduler.core.operations.reasons import sentence
from scheduler.core.spec.command_hints import command_warnings
from scheduler.core.spec.env import env_hidden
from scheduler.models import Attempt, Job, Queue
from scheduler.models.queue import Role
from scheduler.selectors.cluster.environments import environment_row
from scheduler.selectors.directories import directory_kept_until, has_later_day, queue_keeps_until
from scheduler.selectors.events import event_row
from scheduler.selectors.evidence import ANY_READER, names_of, wait_sentence
from scheduler.selectors.files.losses import losses_of
from scheduler.selectors.jobs.explain import job_explain, round_of_wait
from scheduler.selectors.jobs.history import attempt_row, job_events, job_series, job_timeline
from scheduler.selectors.jobs.kept import job_kept
from scheduler.selectors.jobs.many.dependencies import wait_evidence_now
from scheduler.selectors.jobs.restoring import restored_state
from scheduler.selectors.jobs.rows import Directory, JobAction, JobDetail, JobRow, WrittenLossRow
from scheduler.selectors.rows import Json
from scheduler.selectors.times import iso
from scheduler.selectors.visibility import Access, Actor, access_of, jobs_visible, may_act_on_job

# What a list may be ordered by; each has an index.
ORDERINGS = ("number", "submitted_at", "state_changed_at", "num_gpus", "priority", "name")
NUMBER = re.compile(r"(?:J-)?([0-9]{1,18})", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilters:
    """What a job list is narrowed to; every field empty means everything visible.

    Attributes:
        states: Any of these.
        is_preparing: Also those that wait for their Python environment; alone, only those.
        but_preparing: None of these.
        queue: Name of a queue; its subtree is meant.
        owner: User name.
        search: Part of the name, or a job number with or without ``J-``.
        submitted_after, submitted_before: Aware times; the first is included, the second is not.
        min_gpus, max_gpus: Inclusive.
        is_idle: Only running jobs whose GPUs do nothing.
        ordering: One of ORDERINGS; ``-`` in front turns it round.
    """

    states: tuple[JobState, ...] = ()
    is_preparing: bool = False
    but_preparing: bool = False
    queue: str = ""
    owner: str = ""
    search: str = ""
    submitted_after: datetime | None = None
    submitted_before: datetime | None = None
    min_gpus: int | None = None
    max_gpus: int | None = None
    is_idle: bool = False
    ordering: str = "-number"


def job_list(user: Actor, filters: JobFilters) -> QuerySet[Job]:
    """Return visible jobs with queue and owner, without their specs; the caller slices it."""
    jobs = jobs_visible(user).select_related("queue", "owner").defer("spec")
    if filters.states or filters.is_preparing:
        of_states = Q(state__in=filters.states)
        preparing = Q(state=JobState.QUEUED, wait_reason=WaitReason.PREPARING_ENVIRONMENT)
        jobs = jobs.filter(of_states | preparing if filters.is_preparing else of_states)
    if filters.but_preparing:
        jobs = jobs.exclude(state=JobState.QUEUED, wait_reason=WaitReason.PREPARING_ENVIRONMENT)
    if filters.queue:
        jobs = jobs.filter(queue_id__in=_subtree(filters.queue))
    if filters.owner:
        jobs = jobs.filter(owner__username=filters.owner)
    if filters.search:
        jobs = jobs.filter(_search(filters.search.strip()))
    if filters.is_idle:
        jobs = jobs.filter(state=JobState.RUNNING, idle_since__isnull=False)
    limits = {
        "submitted_at__gte": filters.submitted_after,
        "submitted_at__lt": filters.submitted_before,
        "num_gpus__gte": filters.min_gpus,
        "num_gpus__lte": filters.max_gpus,
    }
    jobs = jobs.filter(**{lookup: value for lookup, value in limits.items() if value is not None})
    sign, field = ("-", filters.ordering[1:]) if filters.ordering.startswith("-") else ("", filters.ordering)
    if field not in ORDERINGS:
        raise ValueError(filters.ordering)
    return jobs.order_by(sign + field, sign + "number")


def _subtree(name: str) -> list[int]:
    """Return the rows of a queue and of those below it; empty when there is none of this name."""
    tree = list(Queue.objects.order_by().values_list("pk", "name", "parent_id"))
    found = {pk for pk, own_name, _ in tree if own_name == name}
    while more := {pk for pk, _, parent in tree if parent in found} - found:
        found |= more
    return sorted(found)


def _search(text: str) -> Q:
    number = NUMBER.fullmatch(text)
    by_name = Q(name__icontains=text.replace("\x00", ""))
    return by_name | Q(number=int(number[1])) if number else by_name


def job_row(job: Job) -> JobRow:
    """Return one line of a job list as plain JSON data; reads the job's queue and owner, not its spec.

    Every user who sees the queue may read it: the sentence names no queue but the job's own.
    """
    return {
        "id": job.pk,
        "number": job.number,
        "name": job.name,
        "queue": job.queue.name,
        "color_slot": job.queue.color_slot,
        "owner": job.owner.username,
        "state": job.state,
        "phase": phase_of(job.state, job.wait_reason),
        "wanted": job.wanted,
        "num_gpus": job.num_gpus,
        "array": "" if job.array_number is None else f"A-{job.array_number}",
        "array_index": job.array_index,
        "priority": job.priority,
        "step": job.step,
        "total_steps": job.total_steps,
        "loss": job.loss,
        "steps_per_s": job.steps_per_s,
        "idle_since": iso(job.idle_since),
        "wait_reason": job.wait_reason,
        "wait_sentence": wait_sentence(job, ANY_READER),
        "wait_position": job.wait_position,
        "submitted_at": iso(job.submitted_at),
        "first_started_at": iso(job.first_started_at),
        "state_changed_at": iso(job.state_changed_at),
        "ended_at": iso(job.ended_at),
        "end_cause": job.end_cause,
        "end_detail": job.end_detail,
    }


def job_detail(user: Actor, job: Job, access: Access | None = None) -> JobDetail:
    """Return all of one job as plain JSON data; the caller has made sure that ``user`` may see it.

    Args:
        access: The roles of ``user``, where the caller has read them already.
    """
    access = access or access_of(user)
    names = names_of(access) if job.wait_evidence else ANY_READER
    newest = _newest_attempt(job) if job.event_count > 1 else None  # its first event is the submit
    checkpoint = job.checkpoint_attempt
    kept = job_kept(job, newest, timezone.now())
    evidence = wait_evidence_now(job, names)
    return {
        **job_row(job),
        "spec": spec_shown(user, job, access),
        "warnings": command_warnings(job.spec["command"]),
        "wait_sentence": sentence(job.wait_reason, evidence) if job.wait_reason else "",
        "wait_evidence": evidence,
        "wait_since": iso(job.wait_since),
        "wait_round": round_of_wait(job),
        "retry_after": iso(job.retry_after),
        "preemptible": job.preemptible,
        "max_attempts": job.max_attempts,
        "profile": job.profile.fingerprint if job.profile and job.profile.relative_speed else "",
        "attained_gpu_s": job.attained_gpu_s,
        "executed_s": job.executed_s,
        "queueing_s": job.queueing_s,
        "preemptions": job.preemptions,
        "failures": job.failures,
        "saved_gpu_s": job.saved_gpu_s,
        "progress_at": iso(job.progress_at),
        "written_loss": _written_loss(job),
        "checkpoint": {
            "attempt": checkpoint.number,
            "name": job.checkpoint_name,
            "step": job.checkpoint_step,
            "at": iso(job.checkpoint_at),
        }
        if checkpoint
        else None,
        "keeps_work": kept.keeps_work,
        "kept": kept.sentence,
        "directory": directory_row(job),
        "environment": environment_row(job, access) if job.environment_id else None,
        "attempt": attempt_row(newest) if newest else None,
        "num_events": job.event_count,
        "actions": _actions(user, job, access),
    }


def _written_loss(job: Job) -> WrittenLossRow | None:
    if job.loss is not None:
        return None
    found = losses_of([job]).by_job[job.pk]
    return None if found.value is None else {"loss": found.value, "step": found.step, "source": found.source}


def spec_shown(user: Actor, job: Job, access: Access | None = None) -> Json:
    """Return the spec; plain values of its environment only for its owner and for leads of its queue.

    Args:
        access: The roles of ``user``, where the caller has read them already.
    """
    is_theirs = job.owner_id == user.pk or (access or access_of(user)).at_least(job.queue_id, Role.LEAD)
    spec: Json = job.spec if is_theirs else env_hidden(job.spec)
    return spec


def directory_row(job: Job) -> Directory | None:
    """Return the directory of a job as plain JSON data; None for a job that has none."""
    if job.directory_bytes is None:
        return None
    return {
        "size_bytes": job.directory_bytes,
        "kept_until": iso(directory_kept_until(job)),
        "queue_keeps_until": iso(queue_keeps_until(job)),
        "removal_at": iso(job.directory_removal_at),
        "removed_at": iso(job.directory_removed_at),
    }


def _newest_attempt(job: Job) -> Attempt | None:
    attempts = Attempt.objects.filter(job=job).order_by("-number")
    return attempts.prefetch_related("leases__server", "leases__gpus__gpu").first()


def _actions(user: Actor, job: Job, access: Access) -> list[JobAction]:
    """Return what ``user`` may do with the job now: cancel, suspend, resume, restore, keep or discard its directory."""
    if not may_act_on_job(user, job, access):
        return []
    if JobState(job.state) in TERMINAL:
        found: list[JobAction] = ["restore"] if restored_state(job, timezone.now()) is not None else []
        has_directory = job.directory_bytes is not None and job.directory_removal_at is None
        if has_directory and (job.keep_directory_until or has_later_day(job, timezone.now())):
            found.append("keep")
        return [*found, "discard"] if has_directory else found
    if job.wanted == "cancel":
        return []
    return ["cancel", "resume" if job.wanted == "suspend" else "suspend"]


__all__ = [
    "JobFilters",
    "attempt_row",
    "event_row",
    "job_detail",
    "job_events",
    "job_explain",
    "job_list",
    "job_row",
    "job_series",
    "job_timeline",
    "spec_shown",
]
