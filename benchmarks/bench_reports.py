"""Measure what the scheduler spends on the reports of its servers, one a second from each.

The real engine runs on a database in a file; agents are simulated, and their messages are signed and read as always.
Clock time includes the disk. Of many servers half report progress and half what they reported before; the same is
measured with each report applied by itself, in turns, so that the ratio holds on a busy machine too. The lag is from
the moment at which a report is due until it is applied; renewals, samples and a round every ten seconds are included,
the making of the reports is not. Its load lasts LAG_S seconds, or BENCH_MINUTES.

    BENCH_SERVERS=1000 BENCH_MINUTES=10 python -m benchmarks reports
"""

import json
import os
import statistics
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from benchmarks.bench_pages import measured_apart
from benchmarks.bench_submit import percentile
from benchmarks.support.postgres import postgres

QUESTION = "Milliseconds that one report of a server costs the scheduler, by jobs on it and by servers that report"
SERVERS, ROUNDS = 8, 30
RUNNING = (1, 8)
MANY = {10: 12, 100: 8, 1_000: 4}  # servers: seconds of reports, applied in either way
LAG_S = 30
ROUND_S = 10.0  # between two rounds beside the reports

Messages = list[tuple[str, str]]


def _sizes() -> list[int]:
    """Return the numbers of servers to measure, each in a database of its own."""
    asked = os.environ.get("BENCH_SERVERS")
    return [int(asked)] if asked else [SERVERS, *MANY]


def measured_on_sqlite() -> dict[str, Any]:
    """Measure on SQLite, each world in a process of its own."""
    found: dict[str, Any] = {}
    for servers in _sizes():
        with tempfile.TemporaryDirectory(prefix="clusterweb-bench-") as folder:
            found |= measured_apart("benchmarks.bench_reports", folder, BENCH_SERVERS=str(servers))
    return found


def measured_on_postgresql() -> dict[str, Any]:
    """Measure on PostgreSQL, each world in a process and a database of its own."""
    found: dict[str, Any] = {}
    for servers in _sizes():
        with tempfile.TemporaryDirectory(prefix="clusterweb-bench-") as folder, postgres() as url:
            environ = {"BENCH_SERVERS": str(servers), "DATABASE_URL": url}
            found |= measured_apart("benchmarks.bench_reports", folder, **environ)
    return found


PARTS = {"sqlite": measured_on_sqlite, "postgresql": measured_on_postgresql}


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
        return self.messages(changed=changed)

    def messages(self, *, changed: int) -> Messages:
        """Return the next report of each server at this moment."""
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
    for _ in range(MANY.get(servers, ROUNDS)):
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


class Stopwatch:
    """Seconds since it was made, of the clock and of the CPU, pauses left out."""

    def __init__(self) -> None:
        self._begun = (time.perf_counter(), time.process_time())

    def passed(self) -> tuple[float, float]:
        """Return both."""
        return time.perf_counter() - self._begun[0], time.process_time() - self._begun[1]

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stand still."""
        wall_s, cpu_s = self.passed()
        yield
        self._begun = (time.perf_counter() - wall_s, time.process_time() - cpu_s)


class Renewals:
    """When each server was last told of its lease, and the longest that one of them waited."""

    def __init__(self, world: Any, watch: Stopwatch) -> None:
        self._watch, self._send = watch, world.transport.send_desired
        self._told_s: dict[str, float] = {}
        self.most_s = 0.0
        world.transport.send_desired = self._note

    def _note(self, messages: Mapping[str, str]) -> None:
        now_s, _ = self._watch.passed()
        for server_id in messages:
            self.most_s = max(self.most_s, now_s - self._told_s.get(server_id, now_s))
            self._told_s[server_id] = now_s
        self._send(messages)


def _lag(cluster: Cluster, servers: int) -> dict[str, Any]:
    """Let reports fall due evenly, while the engine does all it does between rounds, and rounds are made."""
    from django.conf import settings

    from scheduler.live.rounds.run_round import round_run

    world, watch = cluster.world, Stopwatch()
    renewals = Renewals(world, watch)
    seconds = round(60 * float(os.environ.get("BENCH_MINUTES", LAG_S / 60)))
    due: deque[tuple[float, tuple[str, str]]] = deque()
    lags: list[float] = []
    made, passed_s, round_s = 0, 0.0, 0.0
    while made < seconds or due:
        now_s, _ = watch.passed()
        world.clock.advance(now_s - passed_s)
        passed_s = now_s
        if made < seconds and now_s >= made:
            with watch.paused():
                messages = cluster.messages(changed=2)
                due.extend((made + number / servers, message) for number, message in enumerate(messages))
                made += 1
        arrived: deque[tuple[float, tuple[str, str]]] = deque()
        while due and due[0][0] <= now_s:
            arrived.append(due.popleft())
            server_id, message = arrived[-1][1]
            world.transport.reports.setdefault(server_id, []).append(message)
        world.engine.turn([server_id for _, (server_id, _) in arrived], timeout_s=0)
        applied_s, _ = watch.passed()
        lags += [applied_s - due_s for due_s, _ in arrived]
        if applied_s - round_s >= ROUND_S:
            round_s = applied_s
            round_run(world.ports, "beat")
        time.sleep(max(0.0, 0.25 - (watch.passed()[0] - now_s)))
    wall_s, cpu_s = watch.passed()
    return {
        "lag_p50_s": round(percentile(lags, 0.5), 2),
        "lag_p99_s": round(percentile(lags, 0.99), 2),
        "lag_most_s": round(max(lags), 2),
        "core_frac": round(cpu_s / wall_s, 2),
        "reports": len(lags),
        "lease_s": settings.LEASE_TTL_S,
        "renewal_most_s": round(renewals.most_s, 2),
        "leases_delayed": renewals.most_s > settings.LEASE_TTL_S / 2,
    }


def main() -> None:
    """Print what was measured in the database that the environment names."""
    import logging

    import django

    django.setup()
    logging.disable(logging.INFO)
    servers = int(os.environ["BENCH_SERVERS"])
    print(json.dumps(by_jobs() if servers == SERVERS else by_servers(servers)))


if __name__ == "__main__":
    main()
