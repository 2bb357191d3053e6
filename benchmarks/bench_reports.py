"""Measure what the scheduler spends on the reports of its servers, one a second from each.

The real engine runs on a database in a file; agents are simulated, and their messages are signed and read as always.
Clock time includes the disk, since each report is written before the next is read.
"""

import json
import statistics
import tempfile
import time
from typing import Any

from benchmarks.bench_pages import measured_apart
from benchmarks.support.postgres import postgres

QUESTION = "Milliseconds that one report of a server costs the scheduler, by the jobs that run there"
SERVERS, ROUNDS = 8, 30
RUNNING = (1, 8)


def run() -> dict[str, Any]:
    """Measure on both databases, each in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="clusterweb-bench-") as folder:
        found = {"sqlite": measured_apart("benchmarks.bench_reports", folder)}
    with tempfile.TemporaryDirectory(prefix="clusterweb-bench-") as folder, postgres() as url:
        found["postgresql"] = measured_apart("benchmarks.bench_reports", folder, DATABASE_URL=url)
    return found


def main() -> None:
    """Print what was measured in the database that the environment names."""
    import logging

    import django

    django.setup()
    logging.disable(logging.INFO)

    from django.core.management import call_command
    from django.db import transaction

    from scheduler.core.model.lifecycle import JobState
    from scheduler.models import Job
    from tests.support.live.world import World

    def fill() -> None:
        count = SERVERS * jobs
        while Job.objects.count() < count:
            world.submit("team")
        world.until(lambda: Job.objects.filter(state=JobState.RUNNING).count() == count)

    def reports() -> list[tuple[str, str]]:
        world.clock.advance(1.0)
        for agent in world.agents.values():
            agent.read()
            agent.work(1.0)
            agent.send()
        return world.transport.receive_reports(world.engine.server_ids(), timeout_s=0)

    call_command("migrate", verbosity=0)
    with transaction.atomic():
        world = World()
        world.queue("team", quota_gpus=SERVERS * max(RUNNING))
        for number in range(SERVERS):
            world.server(f"server-{number}", slots=max(RUNNING))
    found = {}
    for jobs in RUNNING:
        with transaction.atomic():
            fill()
        took = []
        for _ in range(ROUNDS):
            messages = reports()
            begun_s, begun_cpu_s = time.perf_counter(), time.process_time()
            world.engine.take(messages)
            took.append((time.perf_counter() - begun_s, time.process_time() - begun_cpu_s))
        wall_s, cpu_s = (statistics.median(values) / SERVERS for values in zip(*took, strict=True))
        found[f"{jobs} running"] = {"ms": round(1e3 * wall_s, 2), "cpu_ms": round(1e3 * cpu_s, 2)}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
