"""Measure what the scheduler's engine still holds of jobs that have ended, while no page is open.

The real engine runs many short jobs on a clock that is moved by hand. What is not used any more is freed before each
look, and memory that the allocator keeps for later does not count.
"""

import gc
import json
import logging
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.bench_reports import Cluster

SERVERS, SLOTS, QUEUED = 4, 8, 8
RUN_S = 2.0
STARTING = 150  # jobs that end before the first look


def main() -> None:
    """Print what was measured in the database that the environment names."""
    import django

    django.setup()
    logging.disable(logging.INFO)
    from benchmarks.bench_reports import Cluster

    cluster = Cluster(SERVERS, slots=SLOTS)
    cluster.world.frames.groups = set()
    _end(cluster, STARTING)
    before = _held(cluster)
    jobs = _end(cluster, int(os.environ["ENDED_JOBS"]))
    after = _held(cluster)
    print(json.dumps({"jobs": jobs, "blocks_a_job": round((after - before) / jobs, 2)}))


def _end(cluster: "Cluster", jobs: int) -> int:
    """Let at least so many jobs start, report and end; return how many did."""
    from django.db import transaction

    from scheduler.models import Job

    world, ended = cluster.world, 0
    while ended < jobs:
        with transaction.atomic():
            for _ in range(SERVERS * SLOTS + QUEUED - Job.objects.filter(ended_at=None).count()):
                world.submit("team")
            world.pass_time(1)
        world.engine.frames.flush(now_s=world.clock.mono_s())
        for attempt in (one for agent in world.agents.values() for one in agent.attempts.values()):
            attempt.extra = {"cpu_frac": 0.5 + attempt.run_s / 97, "loss": 1 / (1 + attempt.run_s)}
            if attempt.phase == "running" and attempt.run_s >= RUN_S:
                attempt.phase, attempt.cause, attempt.exit_code = "ended", "completed", 0
                ended += 1
    return ended


def _held(cluster: "Cluster") -> int:
    """Return how many blocks of memory Python's objects have; a block is 512 bytes at most."""
    cluster.world.frames.sent.clear()
    cluster.world.bell.touched.clear()
    gc.collect()
    return sys.getallocatedblocks()


if __name__ == "__main__":
    main()
