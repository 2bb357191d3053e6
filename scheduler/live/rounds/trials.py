"""Keeps the trials of introspection between rounds, with measured rates before and after, and records them for jobs.

The core decides what to try and judges it; here its memory is read and written.
"""

import logging
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from scheduler.core.model.errors import JobChanged
from scheduler.core.model.lifecycle import TERMINAL, JobState
from scheduler.core.model.plan import Plan
from scheduler.core.model.tables import JobTable
from scheduler.core.model.trial import NOTES, TrialKind, Verdict
from scheduler.core.model.trial import Trial as CoreTrial
from scheduler.models import Job, Server, Trial
from scheduler.models.round import TriedChange
from scheduler.services.jobs.state import job_event

log = logging.getLogger(__name__)

# Verdict of a trial dropped before it was judged: a job ended, or a pair was separated.
GONE = "gone"
_Key = tuple[Any, ...]  # identifies a trial


def trials_read(jobs: JobTable) -> tuple[CoreTrial, ...]:
    """Return the trials that the previous plan left for the next snapshot.

    A moving job has no GPUs for a while; its trial is held back until it has some, and measured from then on. The trial
    of a pair is held back while one of the two leaves its GPUs, until that one is parked.
    """
    rows = _remembered()
    away = _kept_back(rows, jobs)
    held_at_s = _held_at_s(jobs)
    return tuple(_from_its_place(_core(row), held_at_s) for row in rows if row.pk not in away)


def _held_at_s(jobs: JobTable) -> Mapping[int, float]:
    return dict(zip(jobs.job_id[jobs.running].tolist(), jobs.held_at_s[jobs.running].tolist(), strict=True))


def _core(row: Trial) -> CoreTrial:
    return CoreTrial(
        kind=TrialKind(row.kind),
        jobs=tuple(row.jobs),
        servers=tuple(row.servers),
        values=tuple(float(value) for value in row.values),
        began_s=row.began_s,
        until_s=row.until_s,
        verdict=Verdict(row.verdict),
    )


def _is_measured_move(trial: Trial | CoreTrial) -> bool:
    return trial.kind == TrialKind.MOVE and trial.verdict == Verdict.TRYING


def _kept_back(rows: Sequence[Trial], jobs: JobTable) -> set[int]:
    """Return the trials that this round neither sees nor forgets."""
    return _on_its_way(rows, _held_at_s(jobs)) | _with_leavers(rows, jobs)


def _on_its_way(rows: Sequence[Trial], held_at_s: Mapping[int, float]) -> set[int]:
    """Return the trials of moving jobs that hold no GPUs yet."""
    moves = {row.jobs[0]: row.pk for row in rows if _is_measured_move(row) and row.jobs[0] not in held_at_s}
    lives = Job.objects.filter(number__in=moves).exclude(state__in=sorted(TERMINAL)).values_list("number", flat=True)
    return {moves[number] for number in lives} if moves else set()


def _with_leavers(rows: Sequence[Trial], jobs: JobTable) -> set[int]:
    """Return the trials of pairs of which one job is leaving its GPUs."""
    pairs = [row for row in rows if row.kind == TrialKind.PACK]
    leavers = _leavers({number for row in pairs for number in row.jobs}, jobs)
    return {row.pk for row in pairs if not leavers.isdisjoint(row.jobs)}


def _leavers(numbers: Collection[int], jobs: JobTable) -> set[int]:
    """Return which of the jobs the round does not see because they are leaving their GPUs."""
    absent = set(numbers) - set(jobs.job_id.tolist())
    if not absent:
        return set()
    # A job that left them since the round began is parked.
    lives = Job.objects.filter(number__in=absent, state__in=[JobState.RUNNING, JobState.PARKED])
    return set(lives.values_list("number", flat=True))


def _from_its_place(trial: CoreTrial, held_at_s: Mapping[int, float]) -> CoreTrial:
    """Return the trial, begun when the job got its present GPUs."""
    began_s = held_at_s.get(trial.jobs[0], trial.began_s) if _is_measured_move(trial) else trial.began_s
    if began_s <= trial.began_s:
        return trial
    return replace(trial, began_s=began_s, until_s=began_s + trial.until_s - trial.began_s)


def trials_write(plan: Plan, jobs: JobTable, *, round_number: int, at: datetime) -> list[TriedChange]:
    """Keep the memory of a plan; call it in the round's transaction.

    Args:
        plan: What the round decided.
        jobs: The table of the round, with the mini-batches a second of each job.

    Returns:
        Every change that was tried, judged or forgotten, as JSON for the round's decisions.
    """
    rates = dict(zip(jobs.job_id.tolist(), jobs.rate.tolist(), strict=True))
    rows = _remembered()
    away = _kept_back(rows, jobs)
    before = {_key(row.kind, row.jobs): row for row in rows if row.pk not in away}
    told: list[TriedChange] = []
    for place, trial in enumerate(plan.trials):
        row = before.pop(_key(trial.kind, trial.jobs), None) or Trial(kind=trial.kind)
        is_news = row.pk is None or row.verdict != trial.verdict
        trial = _with_leavers_notes(trial, row, jobs) if trial.kind in NOTES and row.pk else trial
        changes = _columns(trial) | {"place": place}
        if is_news and trial.kind not in NOTES:
            after = [] if trial.verdict is Verdict.TRYING else [_json(rates.get(job, math.nan)) for job in trial.jobs]
            changes["rates_after"] = after
        _save(row, changes)
        if is_news and trial.kind not in NOTES:
            told.append(_told(row, str(trial.verdict)))
    told += [entry for row in before.values() if (entry := _forget(row, rates, at=at)) is not None]
    for entry in told:
        _tell_jobs(entry, round_number=round_number, at=at)
    return told


def _with_leavers_notes(trial: CoreTrial, row: Trial, jobs: JobTable) -> CoreTrial:
    """Return the notes on jobs with the earlier notes on jobs that are leaving their GPUs.

    The round does not see these. Without their notes they would return as new jobs at every turn: without the service
    of the turn they had, and measured again.
    """
    leavers = _leavers(row.jobs, jobs) - set(trial.jobs)
    kept = [at for at, job in enumerate(row.jobs) if job in leavers]
    before = _core(row)
    return replace(
        trial,
        jobs=(*trial.jobs, *(before.jobs[at] for at in kept)),
        servers=(*trial.servers, *(before.servers[at] for at in kept if before.servers)),
        values=(*trial.values, *(before.values[at] for at in kept)),
    )


def _forget(row: Trial, rates: Mapping[int, float], *, at: datetime) -> TriedChange | None:
    """Turn a trial into history, or delete a note; return the entry to record, if any."""
    if row.kind in NOTES:
        row.delete()
        return None
    changes: dict[str, Any] = {"place": None, "ended_at": at}
    was_tried = row.verdict == Verdict.TRYING
    if _is_measured_move(row) and at.timestamp() >= row.until_s:  # a move that was not worse is over
        changes |= {"verdict": str(Verdict.KEPT), "rates_after": [_json(rates.get(row.jobs[0], math.nan))]}
    _save(row, changes)
    return _told(row, GONE if row.verdict == Verdict.TRYING else row.verdict) if was_tried else None


def _remembered() -> list[Trial]:
    return list(Trial.objects.filter(place__isnull=False).order_by("place"))


def _key(kind: str, jobs: Sequence[int]) -> _Key:
    """Return the key of a trial; there is one note of each kind."""
    return (str(kind),) if kind in NOTES else (str(kind), *jobs)


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


def _told(row: Trial, verdict: str) -> TriedChange:
    """Return the entry for the round's decisions and the events of its jobs."""
    rates = [float(value) for value in row.values[: len(row.jobs)]]
    before = [_json(rate) for rate in (rates if row.kind == TrialKind.PACK else rates[:1])]
    gain = None
    if row.kind == TrialKind.PACK and row.rates_after:
        known = zip(row.rates_after, before, strict=True)
        gain = round(sum((now or 0.0) / alone for now, alone in known if alone), 4)
    servers = Server.with_removed.filter(number__in=row.servers).order_by("number").values_list("name", flat=True)
    return {
        "kind": str(row.kind),
        "jobs": list(row.jobs),
        "servers": list(servers),
        "verdict": verdict,
        "rates_before": before,
        "rates_after": list(row.rates_after),
        "gain": gain,
    }


def _tell_jobs(entry: TriedChange, *, round_number: int, at: datetime) -> None:
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
