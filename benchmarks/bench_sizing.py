"""Measure what the control plane costs: CPU and memory of each process, by the number of servers that report.

The whole product runs; servers are simulated, each with one job of which every second one reports a new step each
second. Two real agents are there as well, to see what an agent takes that runs nothing.

    BENCH_SERVERS=10 BENCH_MINUTES=1 python -m benchmarks sizing
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil

from benchmarks.support.postgres import postgres
from tests.chaos.faults import processes
from tests.support.e2e.stack import ROOT, Stack, wait_for

QUESTION = "CPU and resident memory of each process of the control plane, by servers that report each second"
SERVERS = (10, 100, 1_000)
MINUTES = 2.0
KINDS = ("web", "beat", "scheduler", "simulations", "broker", "agent")
A_PROCESS = 100  # simulated servers in one process
REAL = 2


def sqlite() -> dict[str, Any]:
    """Measure on SQLite, as ``make run`` starts."""
    return {"rows": [row for servers in _sizes() for row in _measured(servers)]}


def postgresql() -> dict[str, Any]:
    """Measure on PostgreSQL."""
    rows = []
    for servers in _sizes():
        with postgres() as url:
            rows += _measured(servers, DATABASE_URL=url)
    return {"rows": rows}


def _sizes() -> tuple[int, ...]:
    asked = os.environ.get("BENCH_SERVERS")
    return (int(asked),) if asked else SERVERS


def _measured(servers: int, **environment: str) -> list[dict[str, Any]]:
    """Return a row for each kind of process: cores that it used and the most memory that it held."""
    with tempfile.TemporaryDirectory(prefix="clusterweb-bench-") as directory:
        stack = Stack(Path(directory) / "var", ROUND_S="10", **environment)
        try:
            stack.start()
            with simulated(stack, servers, slots=1, jobs=servers):
                member = stack.client("admin")
                wait_for(
                    "a job on each server",
                    lambda: member.get("/api/v1/jobs?state=running&limit=1&count=true")["total"] >= servers,
                    within_s=300,
                )
                return [{"servers": servers, **row} for row in _watched(stack)]
        finally:
            stack.destroy()


@contextlib.contextmanager
def simulated(stack: Stack, servers: int, *, slots: int, jobs: int) -> Iterator[None]:
    """Run simulated servers beside the product, in processes that are not counted to it, and submit so many jobs."""
    environ = {**os.environ, **stack.environment, "VAR_DIR": str(stack.var_dir)}
    environ |= {"DJANGO_SETTINGS_MODULE": "clusterweb.settings", "REDIS_URL": _broker_of(stack)}
    command = [sys.executable, "-m", "benchmarks.support.many_servers", str(servers), str(slots), str(jobs)]
    made = subprocess.run(command, cwd=ROOT, env=environ, check=True, stdout=subprocess.PIPE)
    paths: list[str] = json.loads(made.stdout)
    runs = [
        subprocess.Popen(
            [sys.executable, "-m", "agents.simulated.run", *paths[first : first + A_PROCESS]], cwd=ROOT, env=environ
        )
        for first in range(0, servers, A_PROCESS)
    ]
    try:
        yield
    finally:
        for run in runs:
            run.terminate()
        for run in runs:
            run.wait()


def _broker_of(stack: Stack) -> str:
    agent = json.loads((stack.var_dir / "agents" / "server-01.json").read_text())
    return str(agent["redis_url"])


def _watched(stack: Stack) -> list[dict[str, Any]]:
    """Look at the processes for MINUTES, or BENCH_MINUTES."""
    seconds = 60 * float(os.environ.get("BENCH_MINUTES", MINUTES))
    found = {kind: processes(stack, kind) for kind in KINDS} | {"database": _database(stack)}
    memory: dict[str, int] = defaultdict(int)
    before = {kind: _cpu_s(own) for kind, own in found.items()}
    begun_s = time.monotonic()
    while time.monotonic() - begun_s < seconds:
        for kind, own in found.items():
            memory[kind] = max(memory[kind], sum(one.memory_info().rss for one in own))
        time.sleep(1.0)
    passed_s = time.monotonic() - begun_s
    return [
        {
            "process": kind,
            "processes": len(own),
            "cores": round((_cpu_s(own) - before[kind]) / passed_s, 3),
            "memory_mib": memory[kind] >> 20,
        }
        for kind, own in found.items()
        if own
    ]


def _cpu_s(own: list[psutil.Process]) -> float:
    return sum(sum(one.cpu_times()[:2]) for one in own)


def _database(stack: Stack) -> list[psutil.Process]:
    """Return the processes of a PostgreSQL of our own; those that share memory each count it."""
    port = urlsplit(stack.environment.get("DATABASE_URL", "")).port
    for server in psutil.process_iter(["name", "cmdline"]) if port else ():
        if server.info["name"] == "postgres" and f"-p {port}" in " ".join(server.info["cmdline"] or ()):
            return [server, *server.children()]
    return []


PARTS = {"sqlite": sqlite, "postgresql": postgresql}
