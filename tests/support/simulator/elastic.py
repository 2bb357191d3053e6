"""Elastic jobs on a cluster of identical GPUs, for tests of share policies."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from scheduler.core.model.profile import Profile, scaling
from scheduler.core.model.tables import Placements, Snapshot
from scheduler.core.round.config import SharePolicy
from tests.support.simulator.strategies import JobRow, ServerRow, snapshot_of

PROFILES = Path(__file__).parents[3] / "fixtures" / "profiles" / "afs.json"


def afs_profile(model: str) -> Profile:
    """Return the measured scaling of a model, relative to one GPU."""
    points = json.loads(PROFILES.read_text())[model]
    return Profile(scaling=tuple((float(gpus), speed / points[0][1]) for gpus, speed in points))


def elastic_job(*, work_s: float, max_gpus: int, profile: Profile | None = None, arrival_s: float = 0.0) -> JobRow:
    """Return a waiting job with so much work on one GPU."""
    return JobRow(
        num_gpus=1,
        min_gpus=1,
        max_gpus=max_gpus,
        max_servers=0,
        remaining_s=work_s,
        total_s=work_s,
        profile=profile,
        arrival_s=arrival_s,
    )


def holding(snapshot: Snapshot, gpus: Sequence[int]) -> Snapshot:
    """Return the snapshot with its jobs running on so many GPUs of the first server."""
    count = np.array(gpus, dtype=np.int64)
    rows = np.flatnonzero(count)
    held = Placements(
        job=rows,
        server=np.zeros(len(rows), dtype=np.int64),
        num_gpus=count[rows],
        cpus=np.ones(len(rows)),
        memory_bytes=np.ones(len(rows)),
    )
    return replace(snapshot, jobs=replace(snapshot.jobs, running=count > 0), held=held)


def completions_s(policy: SharePolicy, jobs: Sequence[JobRow], num_gpus: int) -> list[float]:
    """Return when each job completes when shares are chosen anew at every completion and resizing costs nothing."""
    left_s = [job.remaining_s for job in jobs]
    done_s = [0.0] * len(jobs)
    now_s = 0.0
    active = list(range(len(jobs)))
    while active:
        rows = [replace(jobs[row], remaining_s=left_s[row]) for row in active]
        shares = policy.shares(snapshot_of(rows, [ServerRow(num_gpus=num_gpus)], now_s=now_s), num_gpus).tolist()
        speeds = [
            scaling(row.profile or Profile(), gpus) if gpus else 0.0 for row, gpus in zip(rows, shares, strict=True)
        ]
        step_s = min(left_s[row] / speed for row, speed in zip(active, speeds, strict=True) if speed)
        now_s += step_s
        for row, speed in zip(active, speeds, strict=True):
            left_s[row] -= speed * step_s
            done_s[row] = now_s
        active = [row for row in active if left_s[row] > 1e-6]
    return done_s
