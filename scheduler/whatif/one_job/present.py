"""The live cluster as the next round will see it, for questions about one job: a new job, or a changed request.

The tables are made by the code that makes the tables of a round, so an answer here is what the round then does.
"""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, cast

import numpy as np

from scheduler.core.model.lifecycle import JobState
from scheduler.core.model.tables import JobTable, Snapshot
from scheduler.core.round.config import SchedulerConfig
from scheduler.core.spec.spec import JobSpec
from scheduler.live.attempts.job_row import COLUMNS, JobQueryRow
from scheduler.live.observed.smoke import smoke_sized
from scheduler.live.rounds.job_table import table_of
from scheduler.live.rounds.run_round import with_promotions
from scheduler.live.rounds.snapshot import LiveSnapshot, snapshot_read
from scheduler.models import Cluster, Job
from scheduler.services.cluster.settings import cluster_row, config_of
from scheduler.simulator.forecasts.futures import Outlook, outlook, quantile
from scheduler.simulator.forecasts.run_times import ended_of
from scheduler.whatif.scenarios.live_base import ended_rows, owners_of
from scheduler.whatif.start_times.estimates import HORIZON_S, LEAST_FUTURES, submitted_lately

Values = dict[str, Any]  # one row of the query that a round reads jobs by


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """The cluster at one moment."""

    cluster: Cluster
    live: LiveSnapshot
    tables: Snapshot
    config: SchedulerConfig
    at: datetime

    @property
    def queue_rows(self) -> dict[int, int]:
        """Return the row of each queue by its id."""
        return {pk: row for row, pk in enumerate(self.tables.queues.queue_id.tolist())}

    def row_of(self, job: Job) -> int | None:
        """Return the row of a waiting job; None when no round would consider it now."""
        row = self.live.job_pks.index(job.pk) if job.pk in self.live.job_pks else None
        return None if row is None or row in self.live.attempt_pks else row

    def one(self, values: Values) -> JobTable:
        """Return one job as a round sees it."""
        # Values have the keys of JobQueryRow; a new job has None where the table does not look.
        row = smoke_sized(cast(JobQueryRow, values))
        return table_of({name: [value] for name, value in row.items()}, {}, self.queue_rows, at=self.at)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedStarts:
    """When one job starts over simulated futures.

    Attributes:
        reason: Why nothing is known, as in ``StartEstimate.reason``; empty when something is.
        starts_s: Seconds from now to its start, one a future, +inf where it does not start.
    """

    reason: str = ""
    starts_s: tuple[float, ...] = ()

    def after_s(self, share: float) -> float:
        """Return the time by which it starts with this chance, seconds; +inf when it does not."""
        return quantile(np.array(self.starts_s), share)


def present_read(at: datetime) -> Present:
    """Return the cluster as a round at ``at`` would find it."""
    cluster = cluster_row()
    config = config_of(cluster)
    live = snapshot_read(cluster, at=at)
    return Present(cluster=cluster, live=live, tables=with_promotions(live.tables, config), config=config, at=at)


def simulate_starts(
    present: Present, tables: Snapshot, row: int, *, owner_pk: int, futures: int, cpu_s: float, most_cpu_s: float
) -> SimulatedStarts:
    """Simulate when the waiting job in ``row`` of changed tables starts.

    Args:
        present: The cluster as it is.
        tables: Its tables with one job more, or with a changed request of one job.
        row: The job.
        owner_pk: The owner of the job.
        futures: How many to simulate, LEAST_FUTURES or more.
        cpu_s: CPU time that this may take.
        most_cpu_s: CPU time that it may take for LEAST_FUTURES.
    """
    owners = owners_of(present.live)
    owner = np.array([*owners, owner_pk][: len(tables.jobs)], dtype=np.int64)
    seen: Outlook = outlook(
        tables,
        present.config,
        owner=owner,
        ended=ended_of(ended_rows(tables.queues)),
        submitted=submitted_lately(present.live, present.at),
        futures=futures,
        horizon_s=HORIZON_S,
        enough=LEAST_FUTURES,
        cpu_s=cpu_s,
        most_cpu_s=most_cpu_s,
        of=np.array([row], dtype=np.int64),
    )
    if seen.unknown:
        return SimulatedStarts(reason="no_history")
    if seen.futures < LEAST_FUTURES:
        return SimulatedStarts(reason="too_large")
    found = SimulatedStarts(starts_s=tuple(seen.starts_s[0].tolist()))
    return found if math.isfinite(found.after_s(0.5)) else replace(found, reason="not_in_futures")


def new_values(spec: JobSpec, *, queue_pk: int, owner_pk: int, profile_pk: int | None, present: Present) -> Values:
    """Return the row of a job that is not submitted yet."""
    blank: Values = dict.fromkeys(COLUMNS)
    blank |= {
        "pk": "",
        "number": present.cluster.next_job_number,
        "owner_id": owner_pk,
        "state": JobState.QUEUED,
        "submitted_at": present.at,
        "state_changed_at": present.at,
        "attained_gpu_s": 0.0,
        "promoted_gpu_s": 0.0,
        "weight": 1.0,
    }
    smoke_due = present.cluster.smoke_run_s > 0 and spec.resources.gpus > 1
    return asked_values(blank, spec, queue_pk=queue_pk, profile_pk=profile_pk, smoke_due=smoke_due)


def stored_values(job: Job) -> Values:
    """Return the row of a job as it is stored."""
    return dict(zip(COLUMNS, Job.objects.values_list(*COLUMNS).get(pk=job.pk), strict=True))


def asked_values(
    values: Mapping[str, Any], spec: JobSpec, *, queue_pk: int, profile_pk: int | None, smoke_due: bool
) -> Values:
    """Return a row with its request replaced by the request of a spec."""
    resources = spec.to_json()["resources"]
    return {
        **values,
        "queue_id": queue_pk,
        "num_gpus": spec.resources.gpus,
        "priority": spec.schedule.priority,
        "preemptible": spec.schedule.preemptible,
        "total_steps": spec.progress.total_steps,
        "profile_id": profile_pk,
        "smoke_due": smoke_due,
        **{name: resources[name.removeprefix("spec__resources__")] for name in COLUMNS if "__resources__" in name},
    }


class CpuAllowance:
    """CPU time of this thread that an answer may still take."""

    def __init__(self, cpu_s: float) -> None:
        """Begin to count."""
        self._until_s = time.thread_time() + cpu_s

    @property
    def left_s(self) -> float:
        """Return what is left, seconds; never below 0."""
        return max(0.0, self._until_s - time.thread_time())
