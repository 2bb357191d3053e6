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
from scheduler.core.model.tables import NO_ROW, JobTable, OptionalColumns, optional_columns
from scheduler.core.operations.time_left import time_left_s
from scheduler.live.attempts.job_row import COLUMNS, JobQueryRow
from scheduler.live.attempts.retry import BACKOFF_MOST_S
from scheduler.live.observed.smoke import smoke_sized
from scheduler.live.rounds.demand import UNKNOWN, JobDemand, curves_read, job_demand
from scheduler.models import Job, Lease, LeaseGpu

# The resources of a spec are read as one text: a database looks into a whole spec for each value that is asked for
# alone, and many jobs ask for the same.
_RESOURCES = "spec__resources"
_TEXT = Cast(KT(_RESOURCES), TextField())
_OF_JOB = tuple(name for name in COLUMNS if not name.startswith(_RESOURCES))
_OF_RESOURCES = tuple(name for name in COLUMNS if name.startswith(_RESOURCES))
_INTS = frozenset({"job_id", "queue", "num_gpus", "max_servers"})
_BOOLS = frozenset({"preemptible", "running"})
_Demands = dict[tuple[Any, ...], JobDemand]  # by what jobs ask for
_NAMES = [field.name for field in fields(JobTable) if field.name not in {*OptionalColumns.__annotations__, "profiles"}]


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
    rows = [
        smoke_sized(_row(resources, columns))
        for resources, *columns in Job.objects.filter(plannable(at)).order_by("number").values_list(_TEXT, *_OF_JOB)
        if columns[0] not in stopping
    ]
    # A page reads while rounds write: a job granted after the leases were read is left out, too.
    rows = [row for row in rows if row["state"] == JobState.QUEUED or held_by[row["pk"]]]
    attempt_pks = {
        index: held_by[row["pk"]][0].attempt_pk for index, row in enumerate(rows) if row["state"] != JobState.QUEUED
    }
    return table_of(rows, held_by, queue_rows, at=at), [row["pk"] for row in rows], attempt_pks


def _row(resources: str, columns: list[Any]) -> JobQueryRow:
    return cast(JobQueryRow, {**dict(zip(_OF_JOB, columns, strict=True)), **_read(resources)})  # COLUMNS are its keys


@lru_cache(maxsize=4_096)
def _read(resources: str) -> Mapping[str, Any]:
    found = json.loads(resources)
    return {name: found.get(name.removeprefix(f"{_RESOURCES}__")) for name in _OF_RESOURCES}


def table_of(
    rows: list[JobQueryRow],
    held_by: Mapping[str, list[HeldLease]],
    queue_rows: dict[int, int],
    *,
    at: datetime,
) -> JobTable:
    """Return the rows as a table; ``held_by`` are the open leases by job."""
    curves = curves_read(row["profile_id"] for row in rows if row["profile_id"] is not None)
    demands: _Demands = {}
    built = [
        _job_row(row, held_by.get(row["pk"], []), queue_rows, curves, demands, now_s=at.timestamp()) for row in rows
    ]
    columns: dict[str, Any] = {}  # arrays of three types
    for name in _NAMES:
        dtype = np.int64 if name in _INTS else np.bool_ if name in _BOOLS else np.float64
        columns[name] = np.array([values[name] for values in built], dtype=dtype)
    columns |= optional_columns(columns["num_gpus"])
    columns["min_gpus"] = np.array([_bound(row, row["spec__resources__min_gpus"]) for row in rows], dtype=np.int64)
    columns["max_gpus"] = np.array([_bound(row, row["spec__resources__max_gpus"]) for row in rows], dtype=np.int64)
    columns["lent"] = np.array([_is_lent(held_by.get(row["pk"], [])) for row in rows], dtype=np.bool_)
    columns["owner"] = np.array([row["owner_id"] or 0 for row in rows], dtype=np.int64)
    columns["weight"] = np.array([row["weight"] for row in rows], dtype=np.float64)
    columns["rate"] = np.array([_rate(row, held_by.get(row["pk"], [])) for row in rows], dtype=np.float64)
    # Only the scaling of a profile: the rest is in the job's demand already.
    known = {pk: Curves(scaling=found.scaling) for pk, found in sorted(curves.items()) if found.scaling}
    row_of: dict[int | None, int] = {pk: row for row, pk in enumerate(known)}
    columns["profile"] = np.array([row_of.get(row["profile_id"], NO_ROW) for row in rows], dtype=np.int64)
    return JobTable(**columns, profiles=tuple(known.values()))


def _job_row(
    row: JobQueryRow,
    held: list[HeldLease],
    queue_rows: dict[int, int],
    curves: dict[int, Curves],
    demands: _Demands,
    *,
    now_s: float,
) -> dict[str, float]:
    """Return the columns of one job."""
    held = [lease for lease in held if lease.num_gpus > 0]
    is_running = bool(held)
    held_s = max(0.0, now_s - held[0].opened_at.timestamp()) if held else 0.0
    held_gpus = sum(lease.num_gpus for lease in held)
    attained_gpu_s = max(0.0, row["attained_gpu_s"] - row["promoted_gpu_s"]) + held_s * held_gpus
    demand = _demand(row, held, curves, demands)
    return {
        "job_id": row["number"],
        "queue": queue_rows[row["queue_id"]],
        "num_gpus": row["num_gpus"],
        "max_servers": row["spec__resources__max_servers"] or 1,  # specs of early versions have none
        "arrival_s": row["submitted_at"].timestamp(),
        "priority": row["priority"],
        "preemptible": row["preemptible"],
        "attained_gpu_s": attained_gpu_s,
        "executed_s": attained_gpu_s / row["num_gpus"],
        "waited_s": 0.0 if is_running else max(0.0, now_s - row["state_changed_at"].timestamp()),
        "first_start_s": row["first_started_at"].timestamp() if row["first_started_at"] else math.inf,
        "remaining_s": _remaining_s(row, is_running=is_running),
        "demand_cpus": demand.demand_cpus,
        "demand_memory_bytes": demand.demand_memory_bytes,
        "min_cpus": demand.min_cpus,
        "min_memory_bytes": demand.min_memory_bytes,
        "running": is_running,
        "held_at_s": held[0].opened_at.timestamp() if held else math.inf,
        "unsaved_s": _unsaved_s(row, held[0], now_s=now_s) if held else 0.0,
    }


def _demand(row: JobQueryRow, held: list[HeldLease], curves: dict[int, Curves], demands: _Demands) -> JobDemand:
    """Return what a job can use; jobs that hold nothing and ask alike share it."""
    asked_cpus, asked_memory = row["spec__resources__cpus"], row["spec__resources__memory"]
    key = (row["profile_id"], row["num_gpus"], asked_cpus, asked_memory)
    if not held and key in demands:
        return demands[key]
    found = job_demand(
        num_gpus=row["num_gpus"],
        asked_cpus=asked_cpus,
        asked_memory=asked_memory,
        curves=UNKNOWN if row["profile_id"] is None else curves.get(row["profile_id"], UNKNOWN),
        held_memory_bytes=sum(lease.memory_bytes for lease in held),
        peak_memory_bytes=held[0].peak_memory_bytes if held else None,
    )
    if not held:
        demands[key] = found
    return found


def _bound(row: JobQueryRow, asked: int | None) -> int:
    """Return one bound of a job's share; a smoke run on fewer GPUs than asked is rigid."""
    is_whole = row["num_gpus"] == row["spec__resources__gpus"]
    return (asked if is_whole else None) or int(row["num_gpus"])


def _is_lent(held: list[HeldLease]) -> bool:
    return any(lease.is_lent for lease in held if lease.num_gpus > 0)


def _rate(row: JobQueryRow, held: list[HeldLease]) -> float:
    """Return the mini-batches a second reported since its present leases opened; NaN before."""
    runs_since = [lease.opened_at for lease in held if lease.num_gpus > 0]
    rate, told_at = row["steps_per_s"], row["progress_at"]
    if not runs_since or rate is None or told_at is None or told_at <= max(runs_since):
        return math.nan
    return float(rate)


def _remaining_s(row: JobQueryRow, *, is_running: bool) -> float:
    """Return the run time left at the reported rate, seconds; +inf when unknown."""
    done = row["step"] if is_running else row["checkpoint_step"]
    return time_left_s(step=done, total_steps=row["total_steps"], steps_per_s=row["steps_per_s"])


def _unsaved_s(row: JobQueryRow, held: HeldLease, *, now_s: float) -> float:
    if held.started_at is None:
        return 0.0
    saved_at = row["checkpoint_at"] if row["checkpoint_attempt_id"] == held.attempt_pk else None
    return max(0.0, now_s - (saved_at or held.started_at).timestamp())
