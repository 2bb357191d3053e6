"""Why a job waits: the binding constraint as a sentence, which jobs are ahead, and which checks pass.

The reason is that of the last round. What only a reader can notice (no round ends any more) is added here.
"""

from datetime import datetime, timedelta
from typing import TypedDict

from django.conf import settings
from django.db.models import Count

from scheduler.core.model.lifecycle import PREPARING, TERMINAL, WAITING, EndCause, JobState, phase_of
from scheduler.core.model.plan import WaitReason
from scheduler.core.operations.needed_change import needed_change
from scheduler.core.operations.reasons import sentence
from scheduler.core.operations.wait_checks import failing_check
from scheduler.models import Cluster, Gpu, Job, Lease, LeaseGpu
from scheduler.models.server import ServerState
from scheduler.selectors.cluster.environments import EnvironmentRow, environment_row
from scheduler.selectors.evidence import (
    ANY_READER,
    Names,
    clock_text,
    job_shown,
    jobs_ahead,
    names_of,
    wait_sentence,
)
from scheduler.selectors.jobs.estimates import estimate_basis, estimate_error, estimate_of, estimate_row
from scheduler.selectors.jobs.history import job_timeline
from scheduler.selectors.jobs.kept import job_kept
from scheduler.selectors.jobs.many.dependencies import wait_evidence_now
from scheduler.selectors.jobs.reason_rows import CheckRow, Explanation, JobAhead, PlaceInLine
from scheduler.selectors.rows import Json
from scheduler.selectors.times import iso, seconds_between
from scheduler.selectors.visibility import Access, Actor, access_of

AHEAD_SHOWN = 10
ROUNDS_MISSED = 3  # after which the scheduler counts as stale
STALE_SLACK = timedelta(seconds=5)


class _ShownReason(TypedDict):
    """The reason as it is shown, with its numbers."""

    reason: str
    sentence: str
    evidence: Json


def job_explain(user: Actor, job: Job, at: datetime) -> Explanation:
    """Return why ``job`` waits at ``at``; the caller has made sure that ``user`` may see it.

    A job that does not wait has an empty reason and no checks.
    """
    access = access_of(user)
    cluster = Cluster.objects.filter(pk=1).first() or Cluster()
    is_waiting = job.state == JobState.QUEUED
    kept = job_kept(job, job.attempts.order_by("-number").first() if job.event_count > 1 else None, at)
    cause = _cause(job, cluster, names_of(access), at)
    change = needed_change(cause["reason"], cause["evidence"]) if cause["reason"] else ""
    estimate = estimate_row(estimate_of(job), reason=cause["reason"], change=change) if is_waiting else None
    error = estimate_error(at) if is_waiting else None
    return {
        "round": round_of_wait(job) if is_waiting else None,
        "state": job.state,
        **cause,
        "needed_change": change,
        "since": iso(job.wait_since or job.state_changed_at),
        "waits_since": iso(job.state_changed_at) if is_waiting else None,
        "policy": cluster.policy,
        **(_place(job, access) if is_waiting else _NO_PLACE),
        "environment": _environment(job, access),
        "checks": _checks(job, cluster, cause, at) if is_waiting else [],
        "held_back": [entry for entry in job_timeline(job, at, user) if entry["kind"] == "wait"] if is_waiting else [],
        "estimate": estimate,
        "estimate_error": error,
        "estimate_basis": estimate_basis(error) if estimate and estimate["known"] else "",
        "keeps_work": kept.keeps_work,
        "kept": kept.sentence,
    }


def round_of_wait(job: Job) -> int | None:
    """Return the newest round that decided about a job that waits; None before the first.

    A round writes only what changes, so what the job's row says of an earlier one is true of all since, unless it was
    not offered to them after a failure.
    """
    if job.wait_round is None or job.wait_reason in ("", WaitReason.NEW) or job.retry_after is not None:
        return job.wait_round
    return max(job.wait_round, Cluster.objects.values_list("round_number", flat=True).get(pk=1))


def scheduler_stale_since(cluster: Cluster, at: datetime) -> datetime | None:
    """Return when the last round ended, if that is too long ago for a scheduler that works; else None."""
    finished_at = cluster.round_finished_at
    if cluster.paused or finished_at is None:
        return None
    allowed = timedelta(seconds=ROUNDS_MISSED * settings.ROUND_S) + STALE_SLACK
    return finished_at if at - finished_at > allowed else None


PARKED_TELLS = "It is parked: it takes turns with other jobs, and goes on with its next one."
_ENDED_WORDS = {
    JobState.COMPLETED: "it has completed",
    JobState.FAILED: "it has failed",
    JobState.CANCELLED: "it was cancelled",
}


def _cause(job: Job, cluster: Cluster, names: Names, at: datetime) -> _ShownReason:
    if job.state == JobState.SUSPENDED:
        evidence: Json = {"by": by} if (by := _suspended_by(job)) else {}
        return _ShownReason(reason=WaitReason.HELD, sentence=sentence(WaitReason.HELD, evidence), evidence=evidence)
    if job.state == JobState.PARKED:
        return _ShownReason(reason="", sentence=PARKED_TELLS, evidence={})
    if job.state != JobState.QUEUED:
        state = _ENDED_WORDS.get(JobState(job.state), f"it is {job.state}")
        return _ShownReason(reason="", sentence=f"It does not wait: {state}.{_state_words(job)}", evidence={})
    if cluster.paused:
        return _ShownReason(
            reason=WaitReason.POLICY_PAUSED, sentence=sentence(WaitReason.POLICY_PAUSED, {}), evidence={}
        )
    stale_since = scheduler_stale_since(cluster, at)
    if stale_since is not None:
        evidence = {"since": clock_text(stale_since), "silent_s": round(seconds_between(stale_since, at))}
        reason = WaitReason.SCHEDULER_STALE
        return _ShownReason(reason=reason, sentence=sentence(reason, evidence), evidence=evidence)
    evidence = wait_evidence_now(job, names)
    words = sentence(job.wait_reason, evidence) if job.wait_reason else ""
    return _ShownReason(reason=job.wait_reason, sentence=words, evidence=evidence)


def _suspended_by(job: Job) -> str:
    """Return who suspended the job; empty where that is not known."""
    asked = job.events.filter(reason="suspend").exclude(request_id="").order_by("-pk")
    return asked.values_list("actor", flat=True).first() or ""


def _environment(job: Job, access: Access) -> EnvironmentRow | None:
    """Return the Python environment of a job that waits for it or that it made fail."""
    is_why = phase_of(job.state, job.wait_reason) == PREPARING or job.end_cause == EndCause.ENVIRONMENT
    return environment_row(job, access) if is_why else None


def _state_words(job: Job) -> str:
    if job.state == JobState.FAILED:
        return f" {job.end_detail}".rstrip()
    if not job.smoke_due or job.state in TERMINAL:
        return ""
    return f" This is its smoke run on one GPU; its {job.num_gpus} GPUs come when that has passed."


_NO_PLACE: PlaceInLine = {
    "position": None,
    "waiting_jobs": None,
    "queue_position": None,
    "queue_waiting_jobs": None,
    "num_ahead": 0,
    "ahead": [],
}


def _place(job: Job, access: Access) -> PlaceInLine:
    """Return the place in the order of the policy, in the cluster and among the jobs of the queue."""
    if job.wait_position is None:
        return _NO_PLACE
    line, ahead = Job.objects.filter(state__in=sorted(WAITING), wait_position__isnull=False), jobs_ahead(job)
    nearest = ahead.select_related("queue").defer("spec").order_by("-wait_position", "-number")
    num_ahead = ahead.count()
    return {
        "position": num_ahead + 1,
        "waiting_jobs": line.count(),
        "queue_position": ahead.filter(queue_id=job.queue_id).count() + 1,
        "queue_waiting_jobs": line.filter(queue_id=job.queue_id).count(),
        "num_ahead": num_ahead,
        "ahead": [_ahead_row(other, access) for other in reversed(nearest[:AHEAD_SHOWN])],
    }


def _ahead_row(other: Job, access: Access) -> JobAhead:
    """Return a job that goes first; of one that the reader may not see only its size."""
    is_seen = access.sees(other.queue_id)
    return {
        "position": other.wait_position,
        "num_gpus": other.num_gpus,
        **job_shown(other, access),
        "reason": other.wait_reason if is_seen else "",
        "sentence": wait_sentence(other, ANY_READER) if is_seen else "",
    }


def _checks(job: Job, cluster: Cluster, cause: _ShownReason, at: datetime) -> list[CheckRow]:
    """Return what a round looks at, in its order, as it is now; what the reason says is never passed."""
    checks = [
        _check_scheduler(cluster, at),
        *_checks_of_queue(job),
        _check_others(job),
        *_checks_of_gpus(job),
        _check_resources(job),
    ]
    if job.smoke_due:
        text = f"runs {cluster.smoke_run_s:.0f} s on one GPU first, then on {job.num_gpus}"
        checks.append({"name": "Smoke run", "ok": True, "text": text})
    if job.retry_after is not None:
        is_due = job.retry_after <= at
        text = "due" if is_due else f"tried again at {clock_text(job.retry_after)}"
        checks.append({"name": "Pause after a failure", "ok": is_due, "text": text})
    return _with_failing(checks, cause) if cause["reason"] else checks


def _with_failing(checks: list[CheckRow], cause: _ShownReason) -> list[CheckRow]:
    """Return the checks with that of the reason not passed: by what is measured now, else by what the round found."""
    name, text = failing_check(cause["reason"], cause["evidence"])
    failing: CheckRow = {"name": name, "ok": False, "text": text}
    if not any(check["name"] == name for check in checks):
        return [*checks, failing]
    return [_failed(check, failing) if check["name"] == name else check for check in checks]


def _failed(check: CheckRow, failing: CheckRow) -> CheckRow:
    """Return a check that is not passed. Its number may have changed since the round of the sentence: it says so."""
    if check["ok"]:
        return failing
    is_newer = check["name"] == "GPUs in the cluster" and check["text"] != failing["text"]
    return {**check, "text": f"{check['text']} by now"} if is_newer else check


def _check_scheduler(cluster: Cluster, at: datetime) -> CheckRow:
    stale_since = scheduler_stale_since(cluster, at)
    text = f"round {cluster.round_number}" if cluster.round_number else "no round yet"
    if cluster.paused:
        text = "paused by an admin"
    elif stale_since is not None:
        text = f"no round since {clock_text(stale_since)}"
    return {"name": "Scheduler", "ok": not cluster.paused and stale_since is None, "text": text}


def _checks_of_queue(job: Job) -> list[CheckRow]:
    queue, needed = job.queue, _needed(job)
    open_leases = Lease.objects.filter(closed_at__isnull=True, attempt__job__queue_id=queue.pk)
    held = sum(open_leases.values_list("num_gpus", flat=True))
    after = held + needed
    over = max(0, after - queue.quota_gpus)
    # Whether the rest of the cluster lends, the reason says.
    borrows = over and queue.may_borrow and job.wait_reason != WaitReason.QUEUE_QUOTA
    text = f"{held} + {needed} of {queue.quota_gpus}" + (f", borrows {over}" if borrows else "")
    is_ok = not over or queue.may_borrow
    checks: list[CheckRow] = [{"name": f"Quota of {queue.name}", "ok": is_ok, "text": text}]
    if queue.max_gpus is not None:
        text = f"{held} + {needed} of at most {queue.max_gpus}"
        checks.append({"name": f"Limit of {queue.name}", "ok": after <= queue.max_gpus, "text": text})
    if queue.user_max_gpus is not None:
        of_owner = sum(open_leases.filter(attempt__job__owner_id=job.owner_id).values_list("num_gpus", flat=True))
        text = f"{of_owner} + {needed} of at most {queue.user_max_gpus}"
        is_ok = of_owner + needed <= queue.user_max_gpus
        checks.append({"name": f"Limit of one user in {queue.name}", "ok": is_ok, "text": text})
    return checks


def _check_others(job: Job) -> CheckRow:
    """Return the check that a dependency fails; whether one is open, the reason says."""
    text = "all have ended" if job.waits_for else "no other job"
    return {"name": "Jobs that it waits for", "ok": True, "text": text}


def _needed(job: Job) -> int:
    """Return the GPUs of its next attempt: a smoke run has one."""
    return 1 if job.smoke_due else job.num_gpus


def _checks_of_gpus(job: Job) -> list[CheckRow]:
    """Return whether enough GPUs are free at all, and on as many servers as it may have."""
    leased = LeaseGpu.objects.filter(released_at__isnull=True).values("gpu_id")
    free_gpus = Gpu.objects.filter(healthy=True, server__state=ServerState.UP).exclude(pk__in=leased)
    free = dict(free_gpus.values_list("server_id").annotate(free=Count("pk")).order_by())
    total, needed = sum(free.values()), _needed(job)
    most_servers = 1 if job.smoke_due else job.spec.get("resources", {}).get("max_servers") or 1
    room = sum(sorted(free.values())[-most_servers:])
    where, largest = ("one server", "largest is") if most_servers == 1 else (f"{most_servers} servers", "at most")
    need = f"needs {needed}"
    return [
        {"name": "GPUs in the cluster", "ok": total >= needed, "text": f"{need}, {total} free"},
        {"name": f"GPUs on {where}", "ok": room >= needed, "text": f"{need}, {largest} {room}"},
    ]


def _check_resources(job: Job) -> CheckRow:
    asked = job.spec.get("resources", {})
    cpus, memory = asked.get("cpus", "auto"), asked.get("memory", "auto")
    cores = "cores as its profile says" if cpus == "auto" else f"{cpus} {'core' if cpus == 1 else 'cores'}"
    memory_text = "memory as its profile says" if memory == "auto" else str(memory)
    text = "as its profile says" if cpus == memory == "auto" else f"{cores}, {memory_text}"
    return {"name": "CPU and memory", "ok": job.wait_reason != WaitReason.CPU_OR_MEMORY, "text": text}
