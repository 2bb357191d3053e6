"""A past window of the cluster's history as a starting point, and what really happened in it.

Replayed are the jobs that were submitted in the window, and those that ran or waited when it began, each with the run
time that it took from then on. Of jobs that go on, which are the long ones, the rest is estimated as for the time at
which a job ends. What happened and its replay are compared up to now. The servers are those that took jobs for most of
the window.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from django.db.models import Count, Q

from scheduler.core.model.tables import ServerTable
from scheduler.core.operations.time_left import time_left_s
from scheduler.core.spec.depends_on import Dependency, read_depends_on
from scheduler.core.spec.reading import FieldReader
from scheduler.core.spec.units import counted
from scheduler.live.rounds.snapshot import snapshot_read
from scheduler.models import Attempt, Cluster, Event, Job, Queue, Round
from scheduler.models.event import SampleScope
from scheduler.selectors.rows import FidelityRow, Json
from scheduler.selectors.samples import series_mean
from scheduler.services.cluster.settings import cluster_row
from scheduler.simulator.errors import BadInput
from scheduler.simulator.report.until import Lives, figures_of_lives
from scheduler.simulator.study.starting_points import run_times_of
from scheduler.whatif.scenarios.live_base import ended_rows, queues_json, servers_json
from scheduler.whatif.scenarios.past_servers import servers_then

MOST_JOBS = 200_000
SAMPLES_READ = 500
# Of another size than the servers of a replay is a cluster that differs by more than this part.
OTHER_SIZE_FRAC = 0.05
_LEAST_S = 1.0
_COLUMNS = (
    *("pk", "name", "queue_id", "owner_id", "num_gpus", "priority", "submitted_at", "ended_at", "executed_s"),
    *("number", "array_number", "array_index", "array_most", "spec__depends_on"),
    *("step", "total_steps", "steps_per_s", "spec__resources__max_servers"),
)


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
    """One job of the window; it begins with its submission or with the window. Times in seconds since 1970.

    Attributes:
        end_s: Completion, or now.
        run_s: Time with GPUs between the two, seconds.
        ran_s: The same since its submission.
        left_s: Of a job that goes on: what is left by its own report; +inf where it has not told.
        is_open: Whether it goes on.
        number: Of the job.
        after: What it waited for, as its spec says.
        array, array_index, array_most: Of a job of an array: its number, the own index, and jobs at work at once.
    """

    name: str
    queue: int
    owner: int
    num_gpus: int
    max_servers: int
    priority: float
    begin_s: float
    end_s: float
    run_s: float
    ran_s: float
    left_s: float
    is_open: bool
    number: int
    after: tuple[Dependency, ...]
    array: int
    array_index: int
    array_most: int


def past_base(*, since: datetime, until: datetime, at: datetime) -> PastWindow:
    """Return the window.

    Raises:
        BadInput: If none of its jobs has run, or there was no server then and none is up.
    """
    tables = snapshot_read(cluster_row(), at=at).tables
    servers, warnings = _servers(tables.servers, since=since, until=min(until, at))
    warnings += _quotas_told(since + (min(until, at) - since) / 2)
    row_of = {pk: row for row, pk in enumerate(tables.queues.queue_id.tolist())}
    lived = sorted(
        _lived(row_of, since=since, until=until, at=at),
        key=lambda one: (one.begin_s, one.array, one.array_index, one.name),
    )
    text = f"{counted(len(lived), 'job')} of {since:%-d %b %H:%M} to {until:%-d %b %H:%M} UTC"
    queues = queues_json(tables.queues)
    source = {"kind": "jobs", "text": text, "queues": queues["names"], "ended": ended_rows(tables.queues)}
    unknown = _tells_nothing({**source, **_jobs_json(lived)})
    if unknown:
        lived = [one for row, one in enumerate(lived) if row not in unknown]
        why = "Too few jobs have ended to guess for how long, so they are left out"
        warnings.append(f"{_count(len(unknown))} not ended and told no length. {why}")
    if not any(one.run_s > 0 for one in lived):
        raise BadInput("No job of this window has run.")
    open_jobs = sum(one.is_open for one in lived)
    if open_jobs:
        telling = sum(one.is_open and math.isfinite(one.left_s) for one in lived)
        how = "by their progress" if telling else "as similar jobs"
        if 0 < telling < open_jobs:
            how = f"{telling:,} by their progress, the others as similar jobs"
        warnings.append(f"{_count(open_jobs)} not ended. The time they still take is estimated: {how}")
    return PastWindow(
        content={
            "servers": servers_json(servers),
            "queues": queues,
            "round_s": None,
            "beat_s": tables.round_s,
            "seen_until_s": at.timestamp(),
            "source": {**source, **_jobs_json(lived)},
        },
        text=text,
        happened=_figures(lived, at),
        held=_held(since, until),
        warnings=warnings,
    )


def _servers(now: ServerTable, *, since: datetime, until: datetime) -> tuple[ServerTable, list[str]]:
    """Return the servers of a window, and what has to be said of them."""
    then = servers_then(since=since, until=until)
    if not len(then):
        if not len(now):
            raise BadInput("No server of this cluster is up.")
        return now, ["The servers are those of now; which ones there were then is not kept"]
    num_gpus = int(then.num_gpus.sum())
    gpus_then = _gpus_then(since, until) or num_gpus
    replayed = f"The replay has the servers that took jobs for most of it, with {num_gpus:,}"
    if abs(gpus_then - num_gpus) > OTHER_SIZE_FRAC * num_gpus:
        waits = "short" if num_gpus > gpus_then else "long"
        return then, [f"On average {gpus_then:,.0f} GPUs took jobs then. {replayed}, so its waits come out too {waits}"]
    if then.server_id.tolist() != now.server_id.tolist():
        return then, [f"Other servers took jobs then than do now. {replayed} GPUs"]
    return then, []


def _quotas_told(then: datetime) -> list[str]:
    """Return that quotas were others at a time, if they were: a replay has those of now, or those of its variant."""
    before: dict[str, int] = {}
    changes = Event.objects.filter(kind="quota", queue__isnull=False, at__gt=then).order_by("pk")
    now = dict(Queue.objects.values_list("name", "quota_gpus"))
    for name, data in changes.values_list("queue__name", "data"):
        before.setdefault(name, data["before"]["quota_gpus"])
    told = [
        f"{name} had {counted(quota, 'GPU')} then, {now[name]:,} now"
        for name, quota in before.items()
        if quota != now[name]
    ]
    return [f"Quotas are those of now: {', '.join(sorted(told))}"] if told else []


def _count(jobs: int) -> str:
    return "1 job has" if jobs == 1 else f"{jobs:,} jobs have"


def _tells_nothing(source: Json) -> set[int]:
    """Return the rows of the jobs that go on for a time of which nothing is known."""
    if not source["open"]:
        return set()
    known = run_times_of(source).is_known.tolist()
    return {one["job"] for one, is_known in zip(source["open"], known, strict=True) if not is_known}


def _lived(row_of: dict[int, int], *, since: datetime, until: datetime, at: datetime) -> list[_PastJob]:
    """Return the jobs of the window: what was submitted in it, and what ran or waited when it began."""
    ran_on = Q(submitted_at__lt=since) & (Q(ended_at__gt=since) | Q(ended_at=None))
    in_window = Job.objects.filter(Q(submitted_at__gte=since, submitted_at__lt=until) | ran_on)
    # A job that ended without having run held nothing and says nothing of how long it would have.
    jobs = in_window.filter(queue_id__in=row_of).exclude(ended_at__isnull=False, first_started_at=None)
    # What its owner keeps waiting is not the scheduler's to start.
    jobs = jobs.exclude(ended_at=None, wanted="suspend")
    if jobs.count() > MOST_JOBS:
        raise BadInput(f"The window holds more than {MOST_JOBS:,} jobs. Choose a shorter one.")
    before_s = _run_before(since)
    open_s = _open_run_s(at)
    found = []
    for row in jobs.values_list(*_COLUMNS).iterator(2_000):
        pk, name, queue, owner, gpus, priority, submitted_at, ended_at, executed_s, *more = row
        number, array, array_index, array_most, depends_on, *told, max_servers = more
        step, total_steps, steps_per_s = told
        ran_s = executed_s + (open_s.get(pk, 0.0) if ended_at is None else 0.0)
        run_s = ran_s - (before_s.get(pk, 0.0) if submitted_at < since else 0.0)
        if ended_at is not None and run_s <= 0:
            continue
        found.append(
            _PastJob(
                name=name,
                queue=row_of[queue],
                owner=owner,
                num_gpus=gpus,
                max_servers=max_servers,
                priority=float(priority),
                begin_s=max(submitted_at, since).timestamp(),
                end_s=(ended_at or at).timestamp(),
                run_s=max(0.0, run_s),
                ran_s=ran_s,
                left_s=time_left_s(step=step, total_steps=total_steps, steps_per_s=steps_per_s),
                is_open=ended_at is None,
                number=number,
                after=read_depends_on(FieldReader(), depends_on),
                array=array or 0,
                array_index=array_index or 0,
                array_most=array_most,
            )
        )
    return found


def _run_before(since: datetime) -> dict[str, float]:
    """Return for how long each job that was submitted before ``since``, and ended after it or not, ran until then."""
    run_s: dict[str, float] = defaultdict(float)
    attempts = Attempt.objects.filter(job__submitted_at__lt=since, created_at__lt=since)
    lasting = attempts.filter(Q(job__ended_at__gt=since) | Q(job__ended_at=None))
    for job_pk, begun_at, ended_at in lasting.values_list("job_id", "created_at", "ended_at"):
        run_s[job_pk] += (min(ended_at or since, since) - begun_at).total_seconds()
    return run_s


def _open_run_s(at: datetime) -> dict[str, float]:
    """Return for how long each job that holds GPUs now has held them."""
    open_attempts = Attempt.objects.filter(ended_at=None, created_at__lt=at)
    return {
        job_pk: (at - begun_at).total_seconds()
        for job_pk, begun_at in open_attempts.values_list("job_id", "created_at")
    }


def _jobs_json(lived: Sequence[_PastJob]) -> Json:
    """Return the jobs as a replay reads them, and what is known of those that go on.

    What a job waited for ended as it asked, or it would not be here: in a replay it waits for the end alone.
    """
    of_array: dict[int, list[int]] = defaultdict(list)
    for one in lived:
        of_array[one.array].append(one.number)
    jobs = [
        {
            "arrival_s": one.begin_s,
            "num_gpus": one.num_gpus,
            "run_s": max(_LEAST_S, one.run_s),
            "queue": one.queue,
            "owner": one.owner,
            "priority": one.priority,
            "max_servers": one.max_servers,
            "name": one.name,
            "number": one.number,
            "after": [
                number
                for other in one.after
                for number in (of_array[other.number] if other.is_array else [other.number])
            ],
            "array": one.array,
            "array_most": one.array_most,
        }
        for one in lived
    ]
    open_jobs = [
        {"job": row, "ran_s": one.ran_s, "left_s": one.left_s if math.isfinite(one.left_s) else None}
        for row, one in enumerate(lived)
        if one.is_open
    ]
    return {"jobs": jobs, "open": open_jobs}


def _gpus_then(since: datetime, until: datetime) -> float:
    """Return how many GPUs took jobs in a time, on average; 0 where nothing is kept of it."""
    names = ("num_gpus", "drained_gpus", "broken_gpus")
    series = series_mean(
        scope=SampleScope.CLUSTER, scope_id="1", names=names, since=since, until=until, points=SAMPLES_READ
    )
    rows = zip(*(series[name] for name in names), strict=True)
    took = [every - (drained or 0) - (broken or 0) for every, drained, broken in rows if every is not None]
    return sum(took) / len(took) if took else 0.0


def _figures(lived: Sequence[_PastJob], at: datetime) -> dict[str, float]:
    """Return what happened until now."""
    lives = Lives(
        begin_s=np.array([one.begin_s for one in lived]),
        end_s=np.array([one.end_s for one in lived]),
        run_s=np.array([one.run_s for one in lived]),
        num_gpus=np.array([one.num_gpus for one in lived], dtype=np.int64),
    )
    return figures_of_lives(lives, at.timestamp())


def _held(since: datetime, until: datetime) -> Json:
    """Return the settings of most rounds of the window; the present ones where no round is kept."""
    cluster: Cluster = cluster_row()
    rounds = Round.objects.filter(started_at__gte=since, started_at__lt=until)
    names = ("policy", "locality", "mechanism")
    most = rounds.order_by().values(*names).annotate(n=Count("pk")).order_by("-n").first()
    held: Json = {name: most[name] if most else getattr(cluster, name) for name in names}
    held["min_run_s"] = cluster.min_run_s  # rounds do not keep it
    for name in names:
        # A round keeps only the options of its policy; the other options are the present ones.
        held[f"{name}_options"] = getattr(cluster, f"{name}_options") if held[name] == getattr(cluster, name) else {}
    if most:
        last = rounds.filter(**{name: most[name] for name in names}).order_by("-number").first()
        held["policy_options"] = last.policy_options if last else held["policy_options"]
    return held


def fidelity_rows(happened: dict[str, float], replayed: dict[str, float]) -> list[FidelityRow]:
    """Return each figure as it happened and as it was replayed, with the difference over what happened.

    Left out are those that only one of the two has: the other is not over.
    """
    return [
        {
            "key": key,
            "kind": "gpus" if key == "avg_allocated_gpus" else "time",
            "happened": value,
            "replayed": replayed[key],
            # A relative error against nearly nothing says nothing.
            "error_frac": replayed[key] / value - 1
            if value > (0.0 if key == "avg_allocated_gpus" else _LEAST_S)
            else None,
        }
        for key, value in happened.items()
        if key in replayed
    ]
