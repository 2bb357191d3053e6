"""Measure what the control plane costs: CPU and memory of each process, by the number of servers that report.

The whole product runs. Servers are simulated, in processes that are not counted; each has one job, and every second job
reports a new step each second. The two real agents of ``make run`` run nothing: what they take is an idle agent's.

    BENCH_SERVERS=10 BENCH_MINUTES=1 python -m benchmarks sizing.sqlite
"""

import contextlib
import json
import os
import tempfile
import time
from collections import defaultdict
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil

from benchmarks.support.postgres import postgres
from benchmarks.support.simulated import simulated
from tests.chaos.faults import processes
from tests.support.e2e.stack import Stack, wait_for

QUESTION = "Cores and memory of each process of the control plane, by servers that report each second"
SERVERS = (10, 100, 1_000)
MINUTES = 1.0
LOOK_EVERY_S = 5.0
KINDS = ("web", "beat", "scheduler", "simulations", "broker", "agent")

Json = dict[str, Any]


def sqlite() -> Json:
    """Measure on SQLite, as ``make run`` starts."""
    return {f"{servers:,} servers": _measured(servers) for servers in _sizes()}


def postgresql() -> Json:
    """Measure on PostgreSQL, each size on a server of its own."""
    found: Json = {}
    for servers in _sizes():
        with postgres() as url:
            found[f"{servers:,} servers"] = _measured(servers, DATABASE_URL=url)
    return found


def _sizes() -> tuple[int, ...]:
    asked = os.environ.get("BENCH_SERVERS")
    return tuple(map(int, asked.split(","))) if asked else SERVERS


def _measured(servers: int, **environment: str) -> Json:
    """Return for each kind of process the cores that it used and the most memory that it held."""
    with tempfile.TemporaryDirectory(prefix="clusterweb-bench-") as directory:
        stack = Stack(Path(directory) / "var", ROUND_S="10", **environment)
        try:
            stack.start()
            admin = stack.client("admin")
            admin.change_settings(policy="fifo", policy_options={})  # las would stop jobs that ran while servers came
            for server in admin.get("/api/v1/servers")["results"]:  # what the jobs say is not for them
                answer = admin.call("POST", f"/api/v1/servers/{server['id']}/drain", {"reason": "simulated jobs"})
                assert answer.status == 200, answer.text
            with simulated(stack, servers, slots=1, jobs=servers):
                wait_for("a job on each server", lambda: _running(admin) >= servers, within_s=150, every_s=2.0)
                found = _watched(stack)
                late_s = time.time() - _oldest_report_s(admin)
                # What starved tells nothing of what it needs.
                found |= {"oldest_report_s": round(late_s, 1), "load_1min": round(os.getloadavg()[0], 1)}
                print(servers, json.dumps(found), flush=True)
                return found
        finally:
            stack.destroy()


def _running(admin: Any) -> int:
    found: int = admin.get("/api/v1/jobs?state=running&limit=1&count=true")["total"]
    return found


def _oldest_report_s(admin: Any) -> float:
    """Return the moment at which the server that was heard longest ago was heard."""
    servers = admin.get("/api/v1/servers")["results"]
    return min(datetime.fromisoformat(one["last_report_at"]).timestamp() for one in servers)


def _watched(stack: Stack) -> Json:
    """Look at the processes for MINUTES, or BENCH_MINUTES; memory that several share is parted among them."""
    seconds = 60 * float(os.environ.get("BENCH_MINUTES", MINUTES))
    found = {kind: processes(stack, kind) for kind in KINDS} | {"database": _database(stack)}
    memory: dict[str, int] = defaultdict(int)
    before = {kind: _cpu_s(own) for kind, own in found.items()}
    begun_s = time.monotonic()
    while time.monotonic() - begun_s < seconds:
        for kind, own in found.items():
            memory[kind] = max(memory[kind], sum(map(_memory, own)))
        time.sleep(LOOK_EVERY_S)
    passed_s = time.monotonic() - begun_s
    return {
        kind: {
            "processes": len(own),
            "cores": round((_cpu_s(own) - before[kind]) / passed_s, 3),
            "memory_mib": memory[kind] >> 20,
        }
        for kind, own in found.items()
        if own
    }


def _memory(process: psutil.Process) -> int:
    with contextlib.suppress(psutil.Error):
        return int(process.memory_full_info().pss)
    return 0


def _cpu_s(own: list[psutil.Process]) -> float:
    found = 0.0
    for process in own:
        with contextlib.suppress(psutil.Error):
            found += sum(process.cpu_times()[:2])
    return found


def _database(stack: Stack) -> list[psutil.Process]:
    """Return the processes of a PostgreSQL of our own."""
    port = urlsplit(stack.environment.get("DATABASE_URL", "")).port
    for server in psutil.process_iter(["name", "cmdline"]) if port else ():
        if server.info["name"] == "postgres" and f"-p {port}" in " ".join(server.info["cmdline"] or ()):
            return [server, *server.children()]
    return []


PARTS = {"sqlite": sqlite, "postgresql": postgresql}
