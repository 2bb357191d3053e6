"""Smoke runs: a job of several GPUs first runs briefly on one, so that an early failure costs one GPU, not the gang.

Decides how large such a job is for a round, and when its smoke run has passed. The gang does not continue from its
checkpoints.

Source: Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads" (Philly), ATC 2019,
section 5, "pre-run on a small pool of cheap GPUs". Differs: any GPU of the cluster, by a quota as every other.
"""

from datetime import datetime, timedelta

from scheduler.core.model.errors import InvalidTransition, JobChanged
from scheduler.core.model.lifecycle import EndCause, JobState
from scheduler.core.spec.units import parse_size_bytes
from scheduler.live.attempts.job_row import JobQueryRow
from scheduler.live.servers.lost import attempt_ask
from scheduler.models import Attempt
from scheduler.models.job import AttemptKind
from scheduler.services.cluster.settings import cluster_row

GPUS = 1


def smoke_sized(row: JobQueryRow) -> JobQueryRow:
    """Return the row for a round: if a smoke run is due, for one GPU with its share of the gang's request."""
    if not row["smoke_due"]:
        return row
    frac = GPUS / row["num_gpus"]
    cpus, memory = row["spec__resources__cpus"], row["spec__resources__memory"]
    return {
        **row,
        "num_gpus": GPUS,
        "spec__resources__min_gpus": GPUS,
        "spec__resources__max_gpus": GPUS,
        "spec__resources__max_servers": 1,
        "spec__resources__cpus": cpus * frac if isinstance(cpus, int | float) else cpus,
        "spec__resources__memory": memory if memory in (None, "auto") else f"{int(parse_size_bytes(memory) * frac)}B",
    }


def smoke_check(*, at: datetime) -> set[str]:
    """Ask smoke runs that lasted long enough to end; return the ids of servers to tell."""
    tell: set[str] = set()
    running = Attempt.objects.filter(
        job__state=JobState.RUNNING, job__smoke_due=True, kind=AttemptKind.SMOKE, wanted="run", ended_at=None
    )
    found = list(running.order_by("pk").values_list("pk", "started_at"))
    smoke_run_s = cluster_row().smoke_run_s if found else 0.0
    for attempt_id, started_at in found:
        if started_at is None or at - started_at < timedelta(seconds=smoke_run_s):
            continue
        try:
            tell |= set(attempt_ask(attempt_id, rule=EndCause.SMOKE_PASSED, at=at, data={"after_s": smoke_run_s}))
        except (JobChanged, InvalidTransition):
            continue  # the job changed meanwhile
    return tell
