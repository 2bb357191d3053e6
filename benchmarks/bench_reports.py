"""Measure what the scheduler spends on the reports of its servers, one a second from each.

The real engine runs on a database in a file; agents are simulated, and their messages are signed and read as always.
Clock time includes the disk. Of many servers half report progress and half what they reported before; the same is
measured with each report applied by itself, in turns, so that the ratio holds on a busy machine too. The lag is from
the moment at which a report is due until it is applied, renewals and samples included.
"""

import json
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

from benchmarks.bench_pages import measured_apart
from benchmarks.support.postgres import postgres

QUESTION = "Milliseconds that one report of a server costs the scheduler, by jobs on it and by servers that report"
SERVERS, ROUNDS = 8, 30
RUNNING = (1, 8)
MANY = {10: 12, 100: 8, 1_000: 4}  # servers: seconds of reports, applied in either way
LAG_S = 30

Messages = list[tuple[str, str]]


def run() -> dict[str, Any]:
    """Measure on both databases, each world in a process of its own."""
    return {"sqlite": _measured_on_sqlite(), "postgresql": _measured_on_postgresql()}


def _measured_on_sqlite() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for servers in (SERVERS, *MANY):
        with tempfile.TemporaryDirectory(prefix="clusterweb-bench-") as folder:
            found |= measured_apart("benchmarks.bench_reports", folder, BENCH_SERVERS=str(servers))
    return found


def _measured_on_postgresql() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for servers in (SERVERS, *MANY):
        with tempfile.TemporaryDirectory(prefix="clusterweb-bench-") as folder, postgres() as url:
            environ = {"BENCH_SERVERS": str(servers), "DATABASE_URL": url}
            found |= measured_apart("benchmarks.bench_reports", folder, **environ)
    return found


class Cluster:
    """Servers with slots for jobs, on the real engine and a clock that is moved by hand."""

    def __init__(self, servers: int, *, slots: int) -> None:
        from django.core.management import call_command
        from django.db import transaction

        from scheduler.models.server import ServerState
        from tests.support.live.ports import FakeAgent
        from tests.support.live.world import World
        from tests.support.rows.factories import server_make

        call_command("migrate", verbosity=0)
        with transaction.atomic():
            self.world = World()
            self.world.queue("team", quota_gpus=servers * slots)
            for number in range(servers):
                row = server_make(f"server-{number}", gpus=0, state=ServerState.JOINING, num_cpus=0, memory_bytes=0)
                agent = FakeAgent(row, self.world.transport, self.world.clock, slots=slots)
                self.world.agents[row.name] = agent
            self.world.pass_time(3)

    def fill(self, jobs: int) -> None:
        """Let so many jobs run."""
        from django.db import transaction

        from scheduler.core.model.lifecycle import JobState
        from scheduler.models import Job

        with transaction.atomic():
            while Job.objects.count() < jobs:
                self.world.submit("team")
            self.world.until(lambda: Job.objects.filter(state=JobState.RUNNING).count() == jobs)

    def second(self, *, changed: int = 1) -> Messages:
        """Return the next report of each server; in each ``changed``-th of them jobs took a step."""
        self.world.clock.advance(1.0)
        messages: Messages = []
        for number, agent in enumerate(self.world.agents.values()):
            agent.read()
            if number % changed == 0:
                agent.work(1.0)
            messages.append((agent.server_id, agent.report()))
        return messages


def by_jobs() -> dict[str, Any]:
    """Return what a report costs where each of a few servers runs one job, and eight."""
    cluster, found = Cluster(SERVERS, slots=max(RUNNING)), {}
    for jobs in RUNNING:
        cluster.fill(SERVERS * jobs)
        costs = [_cost(cluster.world.engine.take, cluster.second()) for _ in range(ROUNDS)]
        found[f"{jobs} running"] = _median(costs, SERVERS)
    return found


def by_servers(servers: int) -> dict[str, Any]:
    """Return what a report costs where many servers run a job each, taken together and one by one, and the lag."""
    from unittest.mock import patch

    cluster = Cluster(servers, slots=1)
    cluster.fill(servers)
    take = cluster.world.engine.take
    together, alone = [], []
    for _ in range(MANY[servers]):
        together.append(_cost(take, cluster.second(changed=2)))
        with patch("scheduler.live.engine.batch_apply", lambda batch, *, at: {}):
            alone.append(_cost(take, cluster.second(changed=2)))
    found = {"together": _median(together, servers), "one by one": _median(alone, servers)}
    ratio = found["one by one"]["cpu_ms"] / found["together"]["cpu_ms"]
    rate = round(1e3 / found["together"]["ms"])
    lag = _lag(cluster, servers)
    return {f"{servers} servers": {**found, "ratio_cpu": round(ratio, 1), "reports_per_s": rate, **lag}}


def _cost(take: Callable[[Messages], None], messages: Messages) -> tuple[float, float]:
    begun_s, begun_cpu_s = time.perf_counter(), time.process_time()
    take(messages)
    return time.perf_counter() - begun_s, time.process_time() - begun_cpu_s


def _median(costs: list[tuple[float, float]], reports: int) -> dict[str, float]:
    wall_s, cpu_s = (statistics.median(values) / reports for values in zip(*costs, strict=True))
    return {"ms": round(1e3 * wall_s, 3), "cpu_ms": round(1e3 * cpu_s, 3)}


def _lag(cluster: Cluster, servers: int) -> dict[str, float]:
    """Let reports fall due evenly for LAG_S seconds, while the engine does all it does between rounds."""
    world = cluster.world
    due = [
        (second + number / servers, message)
        for second in range(LAG_S)
        for number, message in enumerate(cluster.second(changed=2))
    ]
    lags: list[float] = []
    begun_s, begun_cpu_s = time.perf_counter(), time.process_time()
    passed_s, taken = 0.0, 0
    while taken < len(due):
        now_s = time.perf_counter() - begun_s
        world.clock.advance(now_s - passed_s)
        passed_s, first = now_s, taken
        while taken < len(due) and due[taken][0] <= now_s:
            server_id, message = due[taken][1]
            world.transport.reports.setdefault(server_id, []).append(message)
            taken += 1
        world.engine.turn([server_id for _, (server_id, _) in due[first:taken]], timeout_s=0)
        applied_s = time.perf_counter() - begun_s
        lags += [applied_s - due_s for due_s, _ in due[first:taken]]
        time.sleep(max(0.0, 0.25 - (applied_s - now_s)))
    cpu_s = time.process_time() - begun_cpu_s
    return {"lag_most_s": round(max(lags), 2), "core_frac": round(cpu_s / (time.perf_counter() - begun_s), 2)}


def main() -> None:
    """Print what was measured in the database that the environment names."""
    import logging
    import os

    import django

    django.setup()
    logging.disable(logging.INFO)
    servers = int(os.environ["BENCH_SERVERS"])
    print(json.dumps(by_jobs() if servers == SERVERS else by_servers(servers)))


if __name__ == "__main__":
    main()
