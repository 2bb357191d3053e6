"""Measure submits: how soon a job starts on an idle cluster, how many at once, with folders, and files back."""

import http.client
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import yaml

from benchmarks.support.files import folder, known_folder, zip_out
from benchmarks.support.postgres import postgres
from tests.support.e2e.scripts import WRITES_TIME
from tests.support.e2e.stack import Client, Stack, wait_for

QUESTION = (
    "Seconds from sending POST /api/v1/jobs to the first line of the job's own Python process (no torch), "
    "and jobs a second from 8 clients; a folder of 5,000 files; a zip of 2 GB"
)
TARGET_P50_S = 0.5
JOBS = 40
CLIENTS, SECONDS = 8, 8.0
QUEUED = (0, 1_000, 10_000)
BULK = 500  # jobs of one request
MANY, TARGET_MANY_S = 1_000, 5.0  # jobs of one command
TARGETS = {
    "sqlite": {"jobs_a_second": 60},
    "postgresql": {"jobs_a_second": 120},
    "p99_s": 0.4,
    "bulk_jobs_a_second": 1_000,
}


def percentile(values: list[float], fraction: float) -> float:
    """Return the value at rank ceil(fraction * n)."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(fraction * len(ordered)) - 1)]


def one(stack: Stack, client: Client, index: int) -> tuple[float, float]:
    """Return seconds until the answer and seconds until the process runs."""
    began_s = time.time()
    job_id = client.submit(
        name=f"bench-{index}", queue="vision", command=["python", "-S", "job.py"], files={"job.py": WRITES_TIME}
    )
    answered_s = time.time() - began_s
    client.wait_state(job_id, "completed", within_s=60)
    started = stack.var_dir / "shared" / "jobs" / job_id / "dir" / "started"
    return answered_s, float(started.read_text()) - began_s


def start() -> dict[str, Any]:
    """Submit one job after the other to an idle product."""
    with tempfile.TemporaryDirectory(prefix="clusterweb-bench-") as directory:
        # A long round: only the early round that follows a submit may start the job.
        stack = Stack(Path(directory) / "var", ROUND_S="300", LEASE_TTL_S="30", LOST_GRACE_S="15")
        try:
            stack.start()
            client = stack.client("member")
            one(stack, client, 0)  # warm
            measured = [one(stack, client, index) for index in range(1, JOBS + 1)]
            wait_for("idle", lambda: not client.get("/api/v1/jobs?state=running,launching,queued")["results"])
        finally:
            stack.destroy()
    return {
        "jobs": JOBS,
        "answer_p50_s": round(percentile([answered for answered, _ in measured], 0.5), 4),
        "start_p50_s": round(percentile([started for _, started in measured], 0.5), 4),
        "start_p99_s": round(percentile([started for _, started in measured], 0.99), 4),
        "target_start_p50_s": TARGET_P50_S,
    }


def load() -> dict[str, Any]:
    """Let clients submit to the whole product on SQLite, and on PostgreSQL with two web workers."""
    found: dict[str, Any] = {"clients": CLIENTS, "targets": TARGETS, "sqlite": _loaded()}
    with postgres() as url:
        found["postgresql"] = _loaded(DATABASE_URL=url, WEB_CONCURRENCY="2")
    return found


def _loaded(**environment: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="clusterweb-bench-") as directory:
        stack = Stack(Path(directory) / "var", ROUND_S="10", **environment)
        try:
            stack.start()
            clients = [_Submitter(stack.url, token) for token in _tokens(stack)]
            return {f"{queued:,} queued": _measured(stack, clients, queued) for queued in QUEUED}
        finally:
            stack.destroy()


def many() -> dict[str, Any]:
    """Submit many jobs by one command, from its start to its end."""
    with tempfile.TemporaryDirectory(prefix="clusterweb-bench-") as directory:
        stack = Stack(Path(directory) / "var", LEASE_TTL_S="30", LOST_GRACE_S="15")
        file = Path(directory) / "many.yaml"
        file.write_text("---\n".join(yaml.safe_dump(_spec(number)) for number in range(MANY)))
        try:
            stack.start()
            client = stack.client("member")
            environ = {**os.environ, "CLUSTERWEB_URL": stack.url, "CLUSTERWEB_TOKEN": client.token}
            command = [sys.executable, "-m", "clusterweb.cli", "submit", str(file)]
            before, began_s = _cpu_s(stack), time.perf_counter()
            own_s = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(command, env=environ, check=True, stdout=subprocess.DEVNULL)
            took_s = time.perf_counter() - began_s
            cpu_s: dict[str, float] = dict(_cpu_s(stack) - before)
            ended_s = resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu_s["command"] = ended_s.ru_utime + ended_s.ru_stime - own_s.ru_utime - own_s.ru_stime
            stored = client.get("/api/v1/jobs?search=train-&limit=1&count=true")["total"]
        finally:
            stack.destroy()
    return {
        "jobs": stored,
        "took_s": round(took_s, 2),
        "target_s": TARGET_MANY_S,
        "cpu_s": {kind: round(value, 2) for kind, value in cpu_s.items()},
    }


def _tokens(stack: Stack) -> list[str]:
    command = [sys.executable, "-m", "benchmarks.support.submitters", "vision", str(CLIENTS)]
    own = {"VAR_DIR": str(stack.var_dir), "DJANGO_SETTINGS_MODULE": "clusterweb.settings"}
    done = subprocess.run(command, env={**os.environ, **stack.environment, **own}, check=True, stdout=subprocess.PIPE)
    tokens: list[str] = json.loads(done.stdout)
    return tokens


class _Submitter:
    """One client with a connection of its own that stays open."""

    def __init__(self, url: str, token: str) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=120)
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self.took_s: list[float] = []

    def post(self, path: str, body: object) -> None:
        """Send one request that must be answered by 201."""
        begun_s = time.perf_counter()
        self._connection.request("POST", path, json.dumps(body), self._headers)
        answer = self._connection.getresponse()
        text = answer.read()
        assert answer.status == 201, (answer.status, text)
        self.took_s.append(time.perf_counter() - begun_s)

    def close(self) -> None:
        """Begin anew with the next request: the server closes a connection that is idle."""
        self._connection.close()

    def submit_until(self, end_s: float) -> None:
        """Submit one job after the other."""
        self.close()
        while time.perf_counter() < end_s:
            self.post("/api/v1/jobs", _spec(len(self.took_s)))


def _spec(number: int) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "name": f"train-{number}",
        "queue": "vision",
        "command": ["sleep", "3600"],
        "env": {"DATA": "/data/imagenet", "EPOCHS": "90"},
    }


def _measured(stack: Stack, clients: list[_Submitter], queued: int) -> dict[str, Any]:
    """Fill the queue by bulk requests, then let all clients submit single jobs at once."""
    found: dict[str, Any] = {}
    waiting = stack.client("admin").get("/api/v1/jobs?state=queued&limit=1&count=true")["total"]
    jobs = max(0, queued - waiting)
    begun_s = time.perf_counter()
    for place, first in enumerate(range(0, jobs, BULK)):
        clients[place % CLIENTS].close()
        clients[place % CLIENTS].post("/api/v1/jobs/bulk", {"jobs": [_spec(first + n) for n in range(BULK)]})
    if jobs >= BULK:
        found["bulk_jobs_a_second"] = round(jobs / (time.perf_counter() - begun_s))
        # A round has told all of them why they wait: the question is a long queue, not what makes it long.
        wait_for("place in the queue", lambda: _newest(stack)["wait_position"], within_s=60)
    for client in clients:
        client.took_s.clear()
    before, begun_s = _cpu_s(stack), time.perf_counter()
    threads = [threading.Thread(target=client.submit_until, args=(begun_s + SECONDS,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    passed_s, after = time.perf_counter() - begun_s, _cpu_s(stack)
    took_s = [one for client in clients for one in client.took_s]
    return {
        **found,
        "jobs_a_second": round(len(took_s) / passed_s, 1),
        "p50_s": round(percentile(took_s, 0.5), 3),
        "p99_s": round(percentile(took_s, 0.99), 3),
        # What neighbours on the machine do not change: CPU of each part of the product for each submit.
        "cpu_ms": {name: round(1e3 * (after[name] - before[name]) / len(took_s), 1) for name in sorted(after)},
    }


def _newest(stack: Stack) -> dict[str, Any]:
    newest: dict[str, Any] = stack.client("admin").get("/api/v1/jobs?state=queued&limit=1")["results"][0]
    return newest


def _cpu_s(stack: Stack) -> Counter[str]:
    """Return the CPU seconds so far of the web servers, the scheduler and the database."""
    found: Counter[str] = Counter()
    for process in stack.processes():
        command = " ".join(process.cmdline())
        times = process.cpu_times()
        kind = "scheduler" if "-Q scheduler" in command else "web" if _is_web(process) else "other"
        found[kind] += times.user + times.system
    port = urlsplit(stack.environment.get("DATABASE_URL", "")).port
    for server in psutil.process_iter(["name", "cmdline"]) if port else ():
        if server.info["name"] == "postgres" and f"-p {port}" in " ".join(server.info["cmdline"] or ()):
            ended = server.cpu_times()
            found["database"] += ended.children_user + ended.children_system
            found["database"] += sum(sum(one.cpu_times()[:2]) for one in [server, *server.children()])
    return found


def _is_web(process: psutil.Process) -> bool:
    """Return whether it serves requests: workers do not carry the name of the server in their command."""
    return any("uvicorn" in " ".join(one.cmdline()) for one in [process, *process.parents()[:1]])


PARTS = {"start": start, "load": load, "many": many, "folder": folder, "known_folder": known_folder, "zip": zip_out}
