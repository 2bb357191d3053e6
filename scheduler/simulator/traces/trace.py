"""The workload that every trace reader returns, and functions that cut it or stretch its arrivals."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np

from scheduler.core.model.tables import NO_ROW, QueueTable, ServerTable
from scheduler.simulator.draws import whole_shares
from scheduler.simulator.jobs import SimJob


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """A workload as it was read or generated.

    Attributes:
        format: Key of its format; ``generate`` for a generated one.
        source: Name of the file, or the text that generated it.
        jobs: Sorted by arrival; equal arrivals in the order of the file.
        queues: Names of the queues; ``SimJob.queue`` is a position in them. Never empty.
        owners: Names of the users; ``SimJob.owner`` is a position in them. Never empty.
        quotas: GPUs guaranteed to each queue, when known.
        servers: Servers, when the format knows them.
        starts_at: Moment of arrival 0 s, when the format gives dates; times without a zone are taken as UTC.
        rows: Data rows read, those left out included.
        warnings: What was left out, changed or rounded, with counts.
    """

    format: str
    source: str
    jobs: list[SimJob]
    queues: tuple[str, ...] = ("default",)
    owners: tuple[str, ...] = ("unknown",)
    quotas: tuple[int, ...] | None = None
    servers: ServerTable | None = None
    starts_at: datetime | None = None
    rows: int = 0
    warnings: tuple[str, ...] = ()


# What a queue may hold that has no limit of its own: more than any cluster, so that it never is why a job waits.
NO_LIMIT_GPUS = 1_000_000_000


class TooWide(NamedTuple):
    """A job that no schedule can ever run.

    Attributes:
        job: Position in the trace.
        num_gpus: GPUs it insists on.
    """

    job: int
    num_gpus: int


def wider_than(jobs: Sequence[SimJob], *, cluster_gpus: int) -> list[TooWide]:
    """Return the jobs that need more GPUs at once than the cluster has."""
    return [
        TooWide(index, job.num_gpus if job.min_gpus is None else job.min_gpus)
        for index, job in enumerate(jobs)
        if (job.num_gpus if job.min_gpus is None else job.min_gpus) > cluster_gpus
    ]


def offered_load(jobs: Sequence[SimJob], *, cluster_gpus: int) -> float:
    """Return the offered load: GPU time asked for over GPU time there is while the jobs arrive.

    The time is that of n arrivals when n jobs span n - 1 intervals; +inf when all arrive at once, 0 without jobs.
    """
    if not jobs:
        return 0.0
    span_s = jobs[-1].arrival_s - jobs[0].arrival_s
    work_gpu_s = math.fsum(job.num_gpus * job.run_s for job in jobs)
    if span_s <= 0:
        return math.inf
    return work_gpu_s / (cluster_gpus * span_s * len(jobs) / (len(jobs) - 1))


def at_load(trace: Trace, *, load: float, cluster_gpus: int) -> Trace:
    """Return the trace with arrivals stretched, or pressed together, until the offered load is ``load``.

    Args:
        trace: At least two jobs that do not arrive at once.
        load: Share of the cluster's GPU time that is asked for, > 0; above 1 the queue grows.
        cluster_gpus: GPUs of the cluster.

    Raises:
        ValueError: If the load is not positive, or the jobs span no time.
    """
    if not (load > 0 and math.isfinite(load)):
        raise ValueError(f"the load must be a positive number, not {load}")
    now = offered_load(trace.jobs, cluster_gpus=cluster_gpus)
    if not 0 < now < math.inf:
        raise ValueError("the load can be set only for jobs that arrive one after another")
    first_s, factor = trace.jobs[0].arrival_s, now / load
    jobs = [replace(job, arrival_s=first_s + (job.arrival_s - first_s) * factor) for job in trace.jobs]
    note = f"arrivals stretched by {factor:.4g} for an offered load of {load:g} (it was {now:.4g})"
    # Dates no longer hold once time is stretched.
    return replace(trace, jobs=jobs, starts_at=None, warnings=(*trace.warnings, note))


def first_jobs(trace: Trace, *, num_jobs: int) -> Trace:
    """Return the trace with its first jobs only; all of them when there are fewer."""
    return replace(trace, jobs=trace.jobs[:num_jobs])


def window(trace: Trace, *, from_s: float = -math.inf, to_s: float = math.inf) -> Trace:
    """Return the jobs that arrive in [from_s, to_s), in seconds of the trace; their times stay as they are."""
    return replace(trace, jobs=[job for job in trace.jobs if from_s <= job.arrival_s < to_s])


def parse_window(text: str, *, starts_at: datetime | None) -> tuple[float, float]:
    """Return the seconds of a window ``A:B``; each end is seconds, a date (2017-10-05, 2017-10-05T12:30) or empty.

    Raises:
        ValueError: If an end is neither, the trace has no dates, or the window is empty.
    """
    for position in (index for index, letter in enumerate(text) if letter == ":"):
        # A time of day holds colons too: the right one is where both sides can be read.
        try:
            ends = (
                _moment_s(text[:position], starts_at, -math.inf),
                _moment_s(text[position + 1 :], starts_at, math.inf),
            )
        except _NotAMoment:
            continue
        if ends[0] >= ends[1]:
            raise ValueError(f"the window {text!r} is empty: its end is not after its begin")
        return ends
    raise ValueError(f"a window is A:B, each end seconds or a date such as 2017-10-05T12:30, not {text!r}")


class _NotAMoment(ValueError):
    """A text is neither seconds nor a date."""


def _moment_s(text: str, starts_at: datetime | None, otherwise: float) -> float:
    if not text:
        return otherwise
    try:
        seconds = float(text)
    except ValueError:
        pass
    else:
        if not math.isfinite(seconds):
            raise _NotAMoment(text)
        return seconds
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise _NotAMoment(text) from error
    if starts_at is None:
        raise ValueError(f"the trace gives no dates, so {text!r} means nothing: give seconds")
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - starts_at).total_seconds()


def trace_queue_table(trace: Trace, *, cluster_gpus: int) -> QueueTable:
    """Return one top queue for each of the trace's, with its quota, free to borrow the whole cluster.

    Where the trace knows no quotas they are in proportion to the GPU time that the jobs of a queue ask for. A lone
    queue has none: a quota is never exceeded by a gang, so it would only keep the queue's own jobs waiting.
    """
    if len(trace.queues) == 1:
        return queues_of([0])
    shares = np.zeros(len(trace.queues))
    for job in trace.jobs:
        shares[job.queue] += job.num_gpus * job.run_s
    if trace.quotas is not None:
        shares = np.array(trace.quotas, dtype=np.float64)
    if shares.sum() <= 0:
        shares += 1.0
    return queues_of(whole_shares(cluster_gpus, shares))


def queues_of(quotas: Sequence[int]) -> QueueTable:
    """Return top queues with these quotas (GPUs), each free to borrow the whole cluster."""
    size = len(quotas)
    return QueueTable(
        queue_id=np.arange(1, size + 1, dtype=np.int64),
        parent=np.full(size, NO_ROW, dtype=np.int64),
        quota_gpus=np.array(quotas, dtype=np.int64),
        weight=np.maximum(1.0, np.array(quotas, dtype=np.float64)),
        may_borrow=np.ones(size, dtype=np.bool_),
        max_gpus=np.full(size, NO_LIMIT_GPUS, dtype=np.int64),
    )
