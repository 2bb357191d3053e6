"""Reads the jobs of a round and their open leases into columns.

Decides which jobs a round may plan: wanted to run, not in a back-off, and not stopping. Attained service is counted
from leases, never from what a job reports.
"""

import json
import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, cast

import numpy as np
from django.db.models import Q, TextField
from django.db.models.fields.json import KT
from django.db.models.functions import Cast

from scheduler.core.model.lifecycle import PLANNABLE, JobState
from scheduler.core.model.profile import Profile as Curves
from scheduler.core.model.tables import NO_ROW, FloatArray, JobTable, optional_columns
from scheduler.core.operations.time_left import time_left_s
from scheduler.live.attempts.job_row import COLUMNS, JobQueryRow
from scheduler.live.attempts.retry import BACKOFF_MOST_S
from scheduler.live.observed.smoke import smoke_sized
from scheduler.live.rounds.demand import UNKNOWN, JobDemand, curves_read, job_demand
from scheduler.live.rounds.job_columns import Columns, Moment, columns_read, seconds_of
from scheduler.models import Job, Lease, LeaseGpu

# The resources of a spec are read as one text. For values asked for one by one a database parses the whole spec each
# time; and many jobs have the same text, which is then parsed once (``_read``).
_RESOURCES = "spec__resources"
_TEXT = Cast(KT(_RESOURCES), TextField())
_MOMENTS = tuple(name for name in COLUMNS if name.endswith("_at"))
_OF_JOB = tuple(name for name in COLUMNS if not name.startswith(_RESOURCES) and name not in _MOMENTS)
_OF_RESOURCES = tuple(name for name in COLUMNS if name.startswith(_RESOURCES))
_OF_DEMAND = tuple(field.name for field in fields(JobDemand))


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldLease:
    """One open lease; a parked attempt's is for memory alone."""

    attempt_pk: str
    job_pk: str
    wanted: str
    opened_at: datetime
    started_at: datetime | None
    peak_memory_bytes: int | None
    server_pk: str
    num_gpus: int
    cpus: float
    memory_bytes: int
    is_lent: bool  # its job has no share, see ``scheduler.core.round.shares.loans``
    is_whole: bool  # all its GPUs are healthy and its server is up


_OF_LEASE = {  # fields of HeldLease and the columns that they are read from
    "attempt_pk": "attempt_id",
    "job_pk": "attempt__job_id",
    "wanted": "attempt__wanted",
    "opened_at": "opened_at",
    "started_at": "attempt__started_at",
    "peak_memory_bytes": "attempt__peak_memory_bytes",
    "num_gpus": "num_gpus",
    "cpus": "cpus",
    "memory_bytes": "memory_bytes",
    "is_lent": "attempt__is_lent",
}


def held_leases(server_rows: dict[str, int]) -> list[HeldLease]:
    """Return every open lease; ``server_rows`` are the servers that are up."""
    broken = Counter(LeaseGpu.objects.filter(released_at=None, gpu__healthy=False).values_list("lease_id", flat=True))
    rows = Lease.objects.filter(closed_at=None).order_by("attempt__job__number", "server__number")
    return [
        HeldLease(
            server_pk=server_pk,
            is_whole=pk not in broken and server_pk in server_rows,
            **dict(zip(_OF_LEASE, values, strict=True)),
        )
        for pk, server_pk, *values in rows.values_list("pk", "server_id", *_OF_LEASE.values())
    ]


def plannable(at: datetime) -> Q:
    """Return the filter of the jobs that a round may decide about.

    A back-off that ends later than the longest one would is due: the wall clock has stepped back since.
    """
    is_due = Q(retry_after=None) | Q(retry_after__lte=at) | Q(retry_after__gt=at + timedelta(seconds=BACKOFF_MOST_S))
    holds = Q(state__in=[JobState.LAUNCHING, JobState.RUNNING, JobState.PARKED])
    return Q(state__in=sorted(PLANNABLE), wanted="run") & (holds | is_due)


def job_table(
    queue_rows: dict[int, int], held: list[HeldLease], *, at: datetime
) -> tuple[JobTable, list[str], dict[int, str]]:
    """Return the table, the ULID of each row, and the open attempt of each row that holds GPUs."""
    held_by: dict[str, list[HeldLease]] = defaultdict(list)
    for lease in held:
        held_by[lease.job_pk].append(lease)
    # A job whose attempt is asked to stop neither waits nor stays: see ``releasing``. A parked job waits.
    stopping = {lease.job_pk for lease in held if lease.wanted not in ("run", "park")}
    stopping |= {lease.job_pk for lease in held if lease.wanted == "park" and lease.num_gpus > 0}
    columns = _asked(plannable(at))
    # A page reads while rounds write: a job granted after the leases were read is left out, too.
    stays = [
        place
        for place, (pk, state) in enumerate(zip(columns["pk"], columns["state"], strict=True))
        if pk not in stopping and (state == JobState.QUEUED or pk in held_by)
    ]
    if len(stays) < len(columns["pk"]):
        columns = {name: [column[place] for place in stays] for name, column in columns.items()}
    pks = list(columns["pk"])
    attempt_pks = {
        row: held_by[pks[row]][0].attempt_pk for row, state in enumerate(columns["state"]) if state != JobState.QUEUED
    }
    return table_of(columns, held_by, queue_rows, at=at), pks, attempt_pks


def _asked(which: Q) -> Columns:
    """Return the jobs by the names of JobQueryRow, each as large as the round may start it."""
    query = Job.objects.filter(which).order_by("number").values_list(*_OF_JOB, *map(Moment, _MOMENTS), _TEXT)
    found = dict(columns_read(query, (*_OF_JOB, *_MOMENTS, _RESOURCES)))
    resources = [_read(text) for text in found.pop(_RESOURCES)]
    columns: Columns = found | {name: [asked[name] for asked in resources] for name in _OF_RESOURCES}
    if not any(columns["smoke_due"]):
        return columns
    names = list(columns)
    rows: list[Mapping[str, object]] = [
        smoke_sized(_row(names, values)) for values in zip(*columns.values(), strict=True)
    ]
    return {name: [row[name] for row in rows] for name in COLUMNS}


def _row(names: list[str], values: tuple[Any, ...]) -> JobQueryRow:
    return cast(JobQueryRow, dict(zip(names, values, strict=True)))  # its keys are COLUMNS


@lru_cache(maxsize=4_096)
def _read(resources: str) -> Mapping[str, Any]:
    found = json.loads(resources)
    return {name: found.get(name.removeprefix(f"{_RESOURCES}__")) for name in _OF_RESOURCES}


def table_of(
    jobs: Columns, held_by: Mapping[str, list[HeldLease]], queue_rows: dict[int, int], *, at: datetime
) -> JobTable:
    """Return jobs, given by the names of JobQueryRow, as a table; ``held_by`` are the open leases by job."""
    now_s = at.timestamp()
    curves = curves_read(pk for pk in set(jobs["profile_id"]) if pk is not None)
    requests = _requests(jobs, curves)
    num_gpus = np.array(jobs["num_gpus"], dtype=np.int64)
    attained_gpu_s, promoted_gpu_s = (np.array(jobs[f"{name}_gpu_s"], np.float64) for name in ("attained", "promoted"))
    # Only the scaling of a profile: the rest is in the job's demand already.
    known = {pk: Curves(scaling=found.scaling) for pk, found in sorted(curves.items()) if found.scaling}
    row_of: dict[int | None, int] = {pk: row for row, pk in enumerate(known)}
    size = len(num_gpus)
    columns: dict[str, Any] = {  # arrays of three types
        **optional_columns(num_gpus),
        "job_id": np.array(jobs["number"], dtype=np.int64),
        "queue": np.array([queue_rows[pk] for pk in jobs["queue_id"]], dtype=np.int64),
        "num_gpus": num_gpus,
        "arrival_s": seconds_of(jobs["submitted_at"], unknown=math.nan),
        "priority": np.array(jobs["priority"], dtype=np.float64),
        "preemptible": np.array(jobs["preemptible"], dtype=np.bool_),
        "attained_gpu_s": np.maximum(0.0, attained_gpu_s - promoted_gpu_s),
        "waited_s": np.maximum(0.0, now_s - seconds_of(jobs["state_changed_at"], unknown=now_s)),
        "first_start_s": seconds_of(jobs["first_started_at"], unknown=math.inf),
        "remaining_s": _remaining_s(jobs),
        "running": np.zeros(size, dtype=np.bool_),
        "held_at_s": np.full(size, np.inf),
        "unsaved_s": np.zeros(size),
        "owner": np.array([pk or 0 for pk in jobs["owner_id"]], dtype=np.int64),
        "weight": np.array(jobs["weight"], dtype=np.float64),
        "profile": np.array([row_of.get(pk, NO_ROW) for pk in jobs["profile_id"]], dtype=np.int64),
    }
    for name in ("max_servers", "min_gpus", "max_gpus"):
        columns[name] = np.array([getattr(request, name) for request in requests], dtype=np.int64)
    for name in _OF_DEMAND:
        columns[name] = np.array([getattr(request.demand, name) for request in requests], dtype=np.float64)
    holders = [row for row, pk in enumerate(jobs["pk"]) if any(lease.num_gpus > 0 for lease in held_by.get(pk, ()))]
    told_s, saved_s = (
        seconds_of([jobs[name][row] for row in holders], unknown=math.nan).tolist()
        for name in ("progress_at", "checkpoint_at")
    )
    for place, row in enumerate(holders):
        holder = _Holder(
            row=row,
            held=[lease for lease in held_by[jobs["pk"][row]] if lease.num_gpus > 0],
            told_s=told_s[place],
            saved_s=saved_s[place],
        )
        for name, value in _of_holder(jobs, holder, curves, now_s=now_s).items():
            columns[name][row] = value
        columns["attained_gpu_s"][row] += max(0.0, now_s - holder.opened_s) * sum(one.num_gpus for one in holder.held)
    columns["executed_s"] = columns["attained_gpu_s"] / num_gpus
    return JobTable(**columns, profiles=tuple(known.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    """What a job asks for; many ask alike, and those that hold nothing share it."""

    demand: JobDemand
    max_servers: int
    min_gpus: int
    max_gpus: int


def _requests(jobs: Columns, curves: Mapping[int, Curves]) -> list[_Request]:
    found: dict[tuple[Any, ...], _Request] = {}
    asked = zip(*(jobs[name] for name in ("profile_id", "num_gpus", *_OF_RESOURCES)), strict=True)
    return [found[key] if key in found else found.setdefault(key, _request(*key, curves=curves)) for key in asked]


def _request(profile_id: int | None, num_gpus: int, *resources: Any, curves: Mapping[int, Curves]) -> _Request:
    of = dict(zip(_OF_RESOURCES, resources, strict=True))
    # A smoke run on fewer GPUs than asked is rigid.
    is_whole = num_gpus == of["spec__resources__gpus"]
    demand = job_demand(
        num_gpus=num_gpus,
        asked_cpus=of["spec__resources__cpus"],
        asked_memory=of["spec__resources__memory"],
        curves=UNKNOWN if profile_id is None else curves.get(profile_id, UNKNOWN),
        held_memory_bytes=0,
        peak_memory_bytes=None,
    )
    return _Request(
        demand=demand,
        max_servers=of["spec__resources__max_servers"] or 1,  # specs of early versions have none
        min_gpus=(of["spec__resources__min_gpus"] if is_whole else None) or num_gpus,
        max_gpus=(of["spec__resources__max_gpus"] if is_whole else None) or num_gpus,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Holder:
    """A job that holds GPUs.

    Attributes:
        held: Its leases of GPUs.
        told_s, saved_s: When it last told of progress, and of its newest checkpoint; NaN for never.
    """

    row: int
    held: list[HeldLease]
    told_s: float
    saved_s: float

    @property
    def opened_s(self) -> float:
        """Return when the first of its leases opened."""
        return self.held[0].opened_at.timestamp()


def _of_holder(jobs: Columns, holder: _Holder, curves: Mapping[int, Curves], *, now_s: float) -> dict[str, float]:
    """Return the columns of a job that holds GPUs which differ from those of one that waits."""
    row, held = holder.row, holder.held
    profile_id, steps_per_s = jobs["profile_id"][row], jobs["steps_per_s"][row]
    demand = job_demand(
        num_gpus=jobs["num_gpus"][row],
        asked_cpus=jobs["spec__resources__cpus"][row],
        asked_memory=jobs["spec__resources__memory"][row],
        curves=UNKNOWN if profile_id is None else curves.get(profile_id, UNKNOWN),
        held_memory_bytes=sum(lease.memory_bytes for lease in held),
        peak_memory_bytes=held[0].peak_memory_bytes,
    )
    began_s = now_s if held[0].started_at is None else held[0].started_at.timestamp()
    is_saved = jobs["checkpoint_attempt_id"][row] == held[0].attempt_pk and not math.isnan(holder.saved_s)
    unsaved_s = now_s - (holder.saved_s if is_saved and held[0].started_at is not None else began_s)
    # The rate was reported since its present leases opened.
    is_told = holder.told_s > max(lease.opened_at.timestamp() for lease in held) and steps_per_s is not None
    return {
        **{name: getattr(demand, name) for name in _OF_DEMAND},
        "running": True,
        "held_at_s": holder.opened_s,
        "waited_s": 0.0,
        "unsaved_s": max(0.0, unsaved_s),
        "rate": float(steps_per_s) if is_told else math.nan,
        "remaining_s": time_left_s(
            step=jobs["step"][row], total_steps=jobs["total_steps"][row], steps_per_s=steps_per_s
        ),
        "lent": any(lease.is_lent for lease in held),
    }


def _remaining_s(jobs: Columns) -> FloatArray:
    """Return the run time left from the checkpoints at the reported rates, seconds; +inf when unknown."""
    rates = jobs["steps_per_s"]
    found = np.full(len(rates), math.inf)
    for row in (row for row, rate in enumerate(rates) if rate):
        found[row] = time_left_s(
            step=jobs["checkpoint_step"][row], total_steps=jobs["total_steps"][row], steps_per_s=rates[row]
        )
    return found
