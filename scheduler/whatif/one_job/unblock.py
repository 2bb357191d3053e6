"""Changes that would start a waiting job now or sooner, each tried on the cluster before it is offered.

A change that starts the job now was planned by ``plan_round``; one that starts it sooner was simulated forward beside
the job as it is, by the same chance.
"""

import math
import statistics
from datetime import datetime

from django.contrib.auth.models import User
from django.core.cache import cache

from scheduler.core.model.lifecycle import JobState
from scheduler.core.model.plan import WaitReason
from scheduler.core.model.tables import JobTable
from scheduler.core.operations.time_left import moment_after
from scheduler.core.round.hypothetical import JobDecision, first_that_starts, with_job_as
from scheduler.core.spec.spec import JobSpec
from scheduler.core.spec.units import duration_words
from scheduler.models import Job
from scheduler.selectors.jobs.reason_rows import Explanation, PreemptedJob, UnblockRow
from scheduler.selectors.times import iso
from scheduler.selectors.visibility import Actor, access_of, may_act_on_job
from scheduler.whatif.one_job.present import CpuAllowance, present_read, simulate_starts
from scheduler.whatif.one_job.preview import job_named, made_room_words
from scheduler.whatif.one_job.ways import Option, Question, families

MOST_SHOWN = 3
PLAN_CPU_S = 1.0
LOOK_CPU_S = 1.5
ONE_LOOK_CPU_S = 0.5
FUTURES = 12
LEAST_SOONER_S = 60.0
LEAST_SOONER_FRAC = 0.1
KEPT_S = 60
# Reasons for which no change of a job is tried: no round would look at it.
UNTRIED = frozenset({WaitReason.POLICY_PAUSED, WaitReason.NO_SERVER, WaitReason.BACKOFF})


def job_unblockers(user: Actor, job: Job, at: datetime) -> list[UnblockRow]:
    """Return up to MOST_SHOWN changes that start a waiting job now or sooner; none to those who may not make them.

    Those of one round are kept until the next.
    """
    return job_unblockers_soon(user, job, at, most_jobs=None) or []


def job_unblockers_soon(user: Actor, job: Job, at: datetime, *, most_jobs: int | None) -> list[UnblockRow] | None:
    """Return ``job_unblockers``; None where they are not known yet and more than ``most_jobs`` jobs make that slow."""
    if job.state != JobState.QUEUED or not isinstance(user, User) or not may_act_on_job(user, job):
        return []
    present = present_read(at)
    row = present.row_of(job)
    if row is None or present.cluster.paused or not len(present.tables.servers):
        return []
    key = f"unblock.{job.pk}.{user.pk}.{present.live.round_number}.{job.event_count}"
    kept: list[UnblockRow] | None = cache.get(key)
    if kept is None and most_jobs is not None and len(present.tables.jobs) > most_jobs:
        return None
    if kept is None:
        kept = _found(Question(job=job, spec=JobSpec.parse(job.spec), row=row, present=present, user=user))
        cache.set(key, kept, KEPT_S)
    return kept


def nothing_helps(user: Actor, job: Job, explain: Explanation) -> str:
    """Return what is told of a waiting job where ``job_unblockers`` found nothing; pages and REST say the same."""
    if job.state != JobState.QUEUED:
        return ""
    change = f"It cannot start until {explain['needed_change']}." if explain["needed_change"] else ""
    if explain["reason"] in UNTRIED or not may_act_on_job(user, job):
        return change
    if change:
        return f"No change of the job that we tried would start it. {change}"
    return "No change of the job that we tried would start it sooner. Each round tries again."


def _found(question: Question) -> list[UnblockRow]:
    allowance = CpuAllowance(PLAN_CPU_S)
    found: list[UnblockRow] = []
    later: list[list[Option]] = []
    for family in filter(None, families(question)):
        tried = first_that_starts(
            question.present.tables,
            question.present.config,
            question.row,
            [option.one for option in family],
            goes_on=lambda: allowance.left_s > 0,
        )
        if tried is None:
            later.append(family)
            continue
        found.append(_starting(question, family[tried[0]], tried[1]))
    if len(found) < MOST_SHOWN and later:
        found += _sooner(question, later)
    return found[:MOST_SHOWN]


def _starting(question: Question, option: Option, said: JobDecision) -> UnblockRow:
    access = access_of(question.user)
    pks = question.present.live.job_pks
    preempts: list[PreemptedJob] = [
        {**job_named(pks[preemption.job], access), "rule": preemption.rule.value} for preemption in said.preemptions
    ]
    others = made_room_words(len(preempts), follows_leavers=said.follows_leavers)
    return {
        "key": option.key,
        "title": option.title,
        "change": dict(option.change),
        "p50_at": None,
        "sooner_s": None,
        "preempts": preempts,
        "starts": "after_others_leave" if others else "now",
        "sentence": f"It starts with the next round{others}.",
    }


def _sooner(question: Question, rest: list[list[Option]]) -> list[UnblockRow]:
    """Return changes with which the job starts clearly sooner over the same simulated futures, best first."""
    allowance = CpuAllowance(LOOK_CPU_S)
    present, row = question.present, question.row

    def starts_s(one: JobTable | None) -> tuple[float, ...]:
        tables = present.tables if one is None else with_job_as(present.tables, row, one)
        cpu_s = min(ONE_LOOK_CPU_S, allowance.left_s)
        owner_pk = question.job.owner_id
        seen = simulate_starts(present, tables, row, owner_pk=owner_pk, futures=FUTURES, cpu_s=cpu_s, most_cpu_s=cpu_s)
        return seen.starts_s

    as_it_is = starts_s(None)
    found = []
    for family in rest:
        for option in {id(option): option for option in (family[len(family) // 2], family[-1])}.values():
            futures = starts_s(option.one) if as_it_is and allowance.left_s > 0 else ()
            pairs = list(zip(as_it_is, futures, strict=False))
            if not pairs:
                continue
            before_s, after_s = (statistics.median(column) for column in zip(*pairs, strict=True))
            if before_s - after_s >= max(LEAST_SOONER_S, LEAST_SOONER_FRAC * after_s):
                found.append((option, before_s, after_s))
                break
    found.sort(key=lambda entry: entry[2])
    return [_sooner_row(question, *entry) for entry in found]


def _sooner_row(question: Question, option: Option, before_s: float, after_s: float) -> UnblockRow:
    by_s = before_s - after_s
    words = f"about {_minutes(by_s)} sooner" if math.isfinite(by_s) else "where as it is it does not within 7 days"
    return {
        "key": option.key,
        "title": option.title,
        "change": dict(option.change),
        "p50_at": iso(moment_after(question.present.at, after_s)),
        "sooner_s": round(by_s, 1) if math.isfinite(by_s) else None,
        "preempts": [],
        "starts": "sooner",
        "sentence": f"In half of {FUTURES} simulated futures it starts within {_minutes(after_s)}, {words}.",
    }


def _minutes(seconds: float) -> str:
    """Return a length of time, at least a minute: simulated futures tell no more."""
    return duration_words(max(60.0, round(seconds / 60) * 60))
