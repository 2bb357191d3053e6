"""A database with servers and queued jobs, and rounds on it: what a live round costs, reading and writing included.

Run by ``bench_round.live`` as a process with settings of its own; prints the times as JSON.
"""

import json
import logging
import statistics
import time
from datetime import timedelta
from typing import Any

SERVERS, GPUS = 100, 8
QUEUED = (0, 2_000, 10_000)  # beside the jobs that start
STEADY_ROUNDS = 5


def main() -> None:
    """Start a job on every GPU in one round, then plan again while nothing changes."""
    import django

    django.setup()
    logging.disable(logging.INFO)
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    starts = SERVERS * GPUS
    print(json.dumps({"starts": starts, **{f"{queued:,} queued": measured(starts, queued) for queued in QUEUED}}))


def measured(starts: int, queued: int) -> dict[str, Any]:
    """Return what the first round of a cluster took, and the median of those after it."""
    from django.contrib.auth.models import User
    from django.core.management import call_command

    from scheduler.core.model.lifecycle import JobState
    from scheduler.live.rounds.run_round import round_run
    from scheduler.models import Attempt, Cluster, Job
    from scheduler.notify import use_bell
    from scheduler.services.cluster.settings import cluster_row
    from scheduler.services.jobs.check import jobs_checked
    from scheduler.services.jobs.submit import jobs_store
    from tests.support.live.ports import MemoryBell, memory_ports
    from tests.support.rows import factories

    call_command("flush", interactive=False, verbosity=0)
    ports, clock, *_ = memory_ports()
    use_bell(MemoryBell())
    cluster_row()
    Cluster.objects.update(user_most_queued=1_000_000)
    factories.queue_make("team", quota_gpus=starts)
    for number in range(SERVERS):
        factories.server_make(f"server-{number:03d}", gpus=GPUS, num_cpus=64, memory_bytes=2**39)
    admin = User.objects.create(username="admin", is_superuser=True)
    data = [_spec(number) for number in range(starts + queued)]
    for start in range(0, len(data), 500):
        checked = jobs_checked(actor=admin, data=data[start : start + 500])
        jobs_store(checked, at=clock.now(), ids=ports.ids)
        clock.advance(0.01)
    found: dict[str, Any] = {"cold": _timed(lambda: round_run(ports, "beat"))}
    assert Attempt.objects.count() == starts, Attempt.objects.count()
    now = clock.now() + timedelta(seconds=1)
    Job.objects.filter(state=JobState.LAUNCHING).update(state=JobState.RUNNING, first_started_at=now)
    Attempt.objects.update(state="running", started_at=now)
    steady = []
    for _ in range(STEADY_ROUNDS):
        clock.advance(10.0)
        steady.append(_timed(lambda: round_run(ports, "beat")))
    found["steady"] = {name: statistics.median(one[name] for one in steady[1:]) for name in steady[0]}
    return found


def _spec(number: int) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "name": f"train-{number}",
        "queue": "team",
        "command": ["python", "train.py", "--seed", str(number % 50)],
        "env": {"DATA": "/data/imagenet", "EPOCHS": "90"},
        "resources": {"gpus": 1, "cpus": 4, "memory": "16GiB"},
    }


def _timed(call: Any) -> dict[str, float]:
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    call()
    return {
        "s": round(time.perf_counter() - wall_s, 3),
        "cpu_s": round(time.process_time() - cpu_s, 3),
    }


if __name__ == "__main__":
    main()
