"""What introspection remembers, between the database and the rounds; every change tried is told to its jobs.

Decides nothing: the core tries and judges. Here its memory is kept, with the measured rates before and after.
"""

import logging
import math
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from scheduler.core.errors import JobChanged
from scheduler.core.plan import Plan
from scheduler.core.trial import NOTES, TrialKind, Verdict
from scheduler.core.trial import Trial as CoreTrial
from scheduler.models import Job, Server, Trial
from scheduler.services.job_state import job_event

log = logging.getLogger(__name__)

# A change that a round no longer carries without having judged it: a job ended, or they were torn apart.
GONE = "gone"
_Key = tuple[Any, ...]  # what tells one trial from another
Tried = dict[str, Any]  # JSON: kind, jobs, servers, verdict, rates before and after, gain


def trials_read() -> tuple[CoreTrial, ...]:
    """Return what the plan before wants to find in the next snapshot."""
    return tuple(
        CoreTrial(
            kind=TrialKind(row.kind),
            jobs=tuple(row.jobs),
            servers=tuple(row.servers),
            values=tuple(float(value) for value in row.values),
            began_s=row.began_s,
            until_s=row.until_s,
            verdict=Verdict(row.verdict),
        )
        for row in _remembered()
    )


def trials_write(plan: Plan, *, rates: dict[int, float], round_number: int, at: datetime) -> list[Tried]:
    """Keep the memory of a plan; call it in the round's transaction.

    Args:
        rates: Mini-batches a second now, by job number, NaN where not known.

    Returns:
        Every change that was tried, judged or forgotten, as JSON for the round's decisions.
    """
    before = {_key(row.kind, row.jobs, row.began_s): row for row in _remembered()}
    told: list[Tried] = []
    for place, trial in enumerate(plan.trials):
        row = before.pop(_key(trial.kind, trial.jobs, trial.began_s), None) or Trial(kind=trial.kind)
        is_news = row.pk is None or row.verdict != trial.verdict
        changes = _columns(trial) | {"place": place}
        if is_news and trial.kind not in NOTES:
            after = [] if trial.verdict is Verdict.TRYING else [_json(rates.get(job, math.nan)) for job in trial.jobs]
            changes["rates_after"] = after
        _save(row, changes)
        if is_news and trial.kind not in NOTES:
            told.append(_told(row, str(trial.verdict)))
    for row in before.values():
        if row.kind in NOTES:
            row.delete()
            continue
        _save(row, {"place": None, "ended_at": at})
        if row.verdict == Verdict.TRYING:
            told.append(_told(row, GONE))
    for entry in told:
        _tell_jobs(entry, round_number=round_number, at=at)
    return told


def _remembered() -> list[Trial]:
    return list(Trial.objects.filter(place__isnull=False).order_by("place"))


def _key(kind: str, jobs: Sequence[int], began_s: float) -> _Key:
    """Return what a trial is known by; of each note there is one."""
    return (str(kind),) if kind in NOTES else (str(kind), tuple(jobs), began_s)


def _columns(trial: CoreTrial) -> dict[str, Any]:
    return {
        "jobs": list(trial.jobs),
        "servers": list(trial.servers),
        "values": [value if math.isfinite(value) else str(value) for value in trial.values],
        "began_s": trial.began_s,
        "until_s": trial.until_s,
        "verdict": str(trial.verdict),
    }


def _save(row: Trial, changes: dict[str, Any]) -> None:
    changed = [name for name, value in changes.items() if getattr(row, name) != value]
    for name in changed:
        setattr(row, name, changes[name])
    if row.pk is None:
        row.save(force_insert=True)
    elif changed:
        row.save(update_fields=changed)


def _json(value: float) -> float | None:
    return round(value, 6) if math.isfinite(value) else None


def _told(row: Trial, verdict: str) -> Tried:
    """Return a change as its jobs and the round's decisions tell it."""
    rates = [float(value) for value in row.values[: len(row.jobs)]]
    before = [_json(rate) for rate in (rates if row.kind == TrialKind.PACK else rates[:1])]
    gain = None
    if row.kind == TrialKind.PACK and row.rates_after:
        known = zip(row.rates_after, before, strict=True)
        gain = round(sum((now or 0.0) / alone for now, alone in known if alone), 4)
    servers = Server.objects.filter(number__in=row.servers).order_by("number").values_list("name", flat=True)
    return {
        "kind": str(row.kind),
        "jobs": list(row.jobs),
        "servers": list(servers),
        "verdict": verdict,
        "rates_before": before,
        "rates_after": list(row.rates_after),
        "gain": gain,
    }


def _tell_jobs(entry: Tried, *, round_number: int, at: datetime) -> None:
    for job in Job.objects.filter(number__in=entry["jobs"]).defer("spec").order_by("number"):
        try:
            job_event(
                job=job,
                kind="trial",
                at=at,
                actor="scheduler",
                reason=f"{entry['kind']}_{entry['verdict']}",
                data={**entry, "round": round_number},
            )
        except JobChanged as error:
            log.debug("trial_not_told", extra={"job": job.pk, "error": str(error)})
