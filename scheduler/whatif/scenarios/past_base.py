"""A past window of the cluster's history as a starting point, and what really happened in it.

Replayed are the jobs that were submitted in the window and have ended, and the jobs that ran or waited when it began,
each with the run time that it still took. The servers are the present ones: past servers are not kept.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Q

from scheduler.core.operations.metrics import percentile
from scheduler.live.rounds.snapshot import snapshot_read
from scheduler.models import Attempt, Cluster, Job, Round
from scheduler.selectors.rows import FidelityRow, Json
from scheduler.services.cluster.settings import cluster_row
from scheduler.simulator.errors import BadInput
from scheduler.whatif.scenarios.live_base import queues_json, servers_json

MOST_JOBS = 200_000
_LEAST_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PastWindow:
    """A window as it was.

    Attributes:
        content: The starting point.
        text: Its description.
        happened: Figures of what happened, by their key in the summary of a replay.
        held: The settings of most of its rounds, as a variant.
        warnings: What was left out.
    """

    content: Json
    text: str
    happened: dict[str, float]
    held: Json
    warnings: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _PastJob:
    """One job of the window; it begins with its submission or with the window. Times in seconds since 1970."""

    name: str
    queue: int
    owner: int
    num_gpus: int
    priority: float
    begin_s: float
    end_s: float
    run_s: float


def past_base(*, since: datetime, until: datetime, at: datetime) -> PastWindow:
    """Return the window.

    Raises:
        BadInput: If none of its jobs has run and ended, or no server is up.
    """
    tables = snapshot_read(cluster_row(), at=at).tables
    if not len(tables.servers):
        raise BadInput("No server of this cluster is up.")
    row_of = {pk: row for row, pk in enumerate(tables.queues.queue_id.tolist())}
    lived, open_jobs = _lived(row_of, since=since, until=until)
    if not lived:
        raise BadInput("No job that was submitted in this window has run and ended.")
    queues = queues_json(tables.queues)
    jobs = [_job(one) for one in sorted(lived, key=lambda one: (one.begin_s, one.name))]
    text = f"{len(lived):,} jobs of {since:%-d %b %H:%M} to {until:%-d %b %H:%M} UTC"
    warnings = ["The servers are those of now; which ones there were then is not kept"]
    if open_jobs:
        warnings.append(f"{open_jobs:,} jobs of the window have not ended, and are left out")
    return PastWindow(
        content={
            "servers": servers_json(tables.servers),
            "queues": queues,
            "round_s": None,
            "beat_s": tables.round_s,
            "source": {"kind": "jobs", "text": text, "jobs": jobs, "queues": queues["names"]},
        },
        text=text,
        happened=_figures(lived, num_gpus=int(tables.servers.num_gpus.sum())),
        held=_held(since, until),
        warnings=warnings,
    )


def _lived(row_of: dict[int, int], *, since: datetime, until: datetime) -> tuple[list[_PastJob], int]:
    """Return the jobs of the window, and how many of them have not ended."""
    ran_on = Q(submitted_at__lt=since) & (Q(ended_at__gt=since) | Q(ended_at=None))
    in_window = Job.objects.filter(Q(submitted_at__gte=since, submitted_at__lt=until) | ran_on).filter(
        queue_id__in=row_of
    )
    open_jobs = in_window.filter(ended_at=None).count()
    ended = in_window.filter(ended_at__isnull=False, first_started_at__isnull=False)
    if ended.count() > MOST_JOBS:
        raise BadInput(f"The window holds more than {MOST_JOBS:,} jobs. Choose a shorter one.")
    left_s = _run_after(since)
    found = []
    columns = ("pk", "name", "queue_id", "owner_id", "num_gpus", "priority", "submitted_at", "ended_at", "executed_s")
    for pk, name, queue, owner, gpus, priority, submitted_at, ended_at, executed_s in ended.values_list(*columns):
        run_s = left_s.get(pk, 0.0) if submitted_at < since else executed_s
        if run_s <= 0 or ended_at is None:
            continue
        begin = max(submitted_at, since)
        found.append(
            _PastJob(
                name=name,
                queue=row_of[queue],
                owner=owner,
                num_gpus=gpus,
                priority=float(priority),
                begin_s=begin.timestamp(),
                end_s=ended_at.timestamp(),
                run_s=max(_LEAST_S, run_s),
            )
        )
    return found, open_jobs


def _run_after(since: datetime) -> dict[str, float]:
    """Return for how long each job that was submitted before ``since`` ran after it."""
    run_s: dict[str, float] = defaultdict(float)
    attempts = Attempt.objects.filter(job__submitted_at__lt=since, ended_at__gt=since)
    for job_pk, begun_at, ended_at in attempts.values_list("job_id", "created_at", "ended_at"):
        if ended_at is not None:
            run_s[job_pk] += max(0.0, (ended_at - max(begun_at, since)).total_seconds())
    return run_s


def _job(one: _PastJob) -> Json:
    return {
        "arrival_s": one.begin_s,
        "num_gpus": one.num_gpus,
        "run_s": one.run_s,
        "queue": one.queue,
        "owner": one.owner,
        "priority": one.priority,
        "max_servers": 1,
        "name": one.name,
    }


def _figures(lived: Sequence[_PastJob], *, num_gpus: int) -> dict[str, float]:
    """Return what happened, with the keys of the summary of a replay."""
    jct_s = sorted(one.end_s - one.begin_s for one in lived)
    makespan_s = max(one.end_s for one in lived) - min(one.begin_s for one in lived)
    held_gpu_s = math.fsum(one.num_gpus * one.run_s for one in lived)
    return {
        "avg_jct_s": math.fsum(jct_s) / len(jct_s),
        "p99_jct_s": percentile(jct_s, 0.99),
        "avg_queueing_s": math.fsum(max(0.0, one.end_s - one.begin_s - one.run_s) for one in lived) / len(lived),
        "makespan_s": makespan_s,
        "avg_gpu_occupancy": held_gpu_s / (num_gpus * makespan_s) if makespan_s else 0.0,
    }


def _held(since: datetime, until: datetime) -> Json:
    """Return the settings of most rounds of the window; the present ones where no round is kept."""
    cluster: Cluster = cluster_row()
    rounds = Round.objects.filter(started_at__gte=since, started_at__lt=until)
    names = ("policy", "locality", "mechanism")
    most = rounds.order_by().values(*names).annotate(n=Count("pk")).order_by("-n").first()
    held: Json = {name: most[name] if most else getattr(cluster, name) for name in names}
    for name in names:
        # A round keeps only the options of its policy; the other options are the present ones.
        held[f"{name}_options"] = getattr(cluster, f"{name}_options") if held[name] == getattr(cluster, name) else {}
    if most:
        last = rounds.filter(**{name: most[name] for name in names}).order_by("-number").first()
        held["policy_options"] = last.policy_options if last else held["policy_options"]
    return held


def fidelity_rows(happened: dict[str, float], replayed: dict[str, float]) -> list[FidelityRow]:
    """Return each figure as it happened and as it was replayed, with the difference over what happened."""
    return [
        {
            "key": key,
            "kind": "share" if key == "avg_gpu_occupancy" else "time",
            "happened": value,
            "replayed": replayed[key],
            # A relative error against nearly nothing says nothing.
            "error_frac": replayed[key] / value - 1
            if value > (0.0 if key == "avg_gpu_occupancy" else _LEAST_S)
            else None,
        }
        for key, value in happened.items()
    ]
