"""Two web workers, two simulations workers and two schedulers beside each other: each takes what another leaves."""

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from clusterweb.config.env import BASE_DIR
from tests.integration.agents.test_broker import Broker
from tests.integration.clusterweb.test_two_workers import answers, ask, free_port
from tests.support.agents.server import wait_for

SET_UP = """
import json
from datetime import UTC, datetime
from django.conf import settings
from scheduler.management.commands.add_server import write_private
from scheduler.services.accounts.tokens import token_create
from scheduler.services.cluster.servers import agent_config, server_register
from scheduler.services.permission import OPERATOR
from tests.support.rows.factories import queue_make, user_make
at = datetime.now(UTC)
queue_make("vision", quota_gpus=4)
admin = user_make("ada", admin=True)
server = server_register(actor=OPERATOR, name="server-01", at=at)
path = settings.VAR_DIR / "agents" / "server-01.json"
write_private(path, agent_config(
    server, redis_url=settings.REDIS_URL, shared_dir=str(settings.SHARED_DIR),
    state_dir=str(settings.VAR_DIR / "agents" / "server-01"), cpu_slots=4, cpu_ids=[0, 1, 2, 3], memory_bytes=2**34))
token = token_create(actor=admin, name="t", scopes=["jobs:read", "jobs:write", "whatif"], expires_at=None, at=at)[1]
print(json.dumps({"token": token, "config": str(path)}))
"""
WORKER = ("--pool", "threads", "--loglevel", "warning", "--without-gossip", "--without-mingle", "--without-heartbeat")
LONG = {"servers": 2, "gpus": 4, "cpus": 16, "memory_gb": 100}


@dataclass
class Product:
    """What runs, by name, and the way to ask it."""

    environment: dict[str, str]
    var_dir: Path
    ports: tuple[int, int]
    token: str = ""
    running: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    def start(self, name: str, *arguments: str) -> None:
        """Start one process of it."""
        self.running[name] = subprocess.Popen([sys.executable, "-m", *arguments], cwd=BASE_DIR, env=self.environment)

    def worker(self, name: str, queues: str) -> None:
        """Start a Celery worker of its own name."""
        self.start(name, "celery", "-A", "clusterweb", "worker", "-n", f"{name}@%h", "-Q", queues, "-c", "2", *WORKER)

    def manage(self, *arguments: str) -> str:
        """Return the last line that a command of ours prints."""
        done = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=BASE_DIR, env=self.environment, capture_output=True, text=True, timeout=600,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()[-1] if done.stdout else ""

    def post(self, port: int, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Return the answer of one of the web workers to a request that makes something."""
        headers = {"Authorization": f"Bearer {self.token}", "Content_Type": "application/json"}
        status, _, text = ask(port, "POST", path, json.dumps(body), **headers)
        assert status in (201, 202), text
        found: dict[str, Any] = json.loads(text)
        return found

    def says(self, query: str) -> list[tuple[Any, ...]]:
        """Return what the database says."""
        path = f"file:{self.var_dir / 'clusterweb.sqlite3'}?mode=ro"
        with contextlib.closing(sqlite3.connect(path, uri=True, timeout=60)) as database:
            return list(database.execute(query).fetchall())


@pytest.fixture(scope="module")
def product(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """All of it, on one broker and one database, with one simulated server of four slots."""
    directory = tmp_path_factory.mktemp("side")
    broker = Broker(directory)
    broker.start()
    environment = {
        **os.environ, "VAR_DIR": str(directory / "var"), "DEBUG": "1", "ROUND_S": "2", "LEASE_TTL_S": "20",
        "REDIS_URL": f"unix://scheduler:schedulerpassword@{broker.socket}",
        "DJANGO_SETTINGS_MODULE": "clusterweb.settings",
    }  # fmt: skip
    (directory / "var" / "static").mkdir(parents=True)
    made = Product(environment=environment, var_dir=directory / "var", ports=(free_port(), free_port()))
    try:
        made.manage("migrate", "-v0")
        told = json.loads(made.manage("shell", "-v0", "-c", SET_UP))
        made.token = told["token"]
        for port in made.ports:
            arguments = ("--port", str(port), "--no-proxy-headers", "--log-level", "warning")
            made.start(f"web-{port}", "uvicorn", "clusterweb.asgi:application", *arguments)
        for number in (1, 2):
            made.worker(f"scheduler-{number}", "scheduler")
            made.worker(f"simulations-{number}", "simulations,notices")
        made.start("beat", "celery", "-A", "clusterweb", "beat", "--loglevel", "warning", "--pidfile=")
        made.start("server", "agents.simulated.run", told["config"])
        for port in made.ports:
            wait_for("web worker", lambda port=port: answers(port), within_s=120)  # type: ignore[misc]  # bound now
        wait_for("server", lambda: made.says("SELECT 1 FROM scheduler_server WHERE state = 'up'"), within_s=120)
        yield made
    finally:
        for process in made.running.values():
            process.terminate()  # workers end their simulations
        for process in made.running.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(30)
            process.kill()
            process.wait()
        broker.client.close()
        broker.kill()


def submit(product: Product, numbers: Sequence[int]) -> None:
    """Submit a job of six seconds for each number, to the web workers in turns."""
    ports = cycle(product.ports)
    for number in numbers:
        env = {"SIMULATED_STEPS": "6", "SIMULATED_STEPS_PER_S": "1"}
        job = {"apiVersion": "v1", "name": f"train-{number}", "queue": "vision", "command": ["true"], "env": env}
        product.post(next(ports), "/api/v1/jobs", job)


def test_standby_scheduler_takes_over(product: Product) -> None:
    """One scheduler is killed while jobs run and wait: the other goes on, and no job is started twice."""
    submit(product, range(6))
    wait_for("some run", lambda: product.says("SELECT 1 FROM scheduler_job WHERE state = 'running'"), within_s=120)
    first = product.running.pop("scheduler-1")
    first.kill()
    first.wait()
    [(rounds,)] = product.says("SELECT MAX(number) FROM scheduler_round")
    submit(product, range(6, 10))

    wait_for(
        "all are done",
        lambda: product.says("SELECT COUNT(*) FROM scheduler_job WHERE state = 'completed'") == [(10,)],
        within_s=180,
    )
    assert product.says("SELECT COUNT(*), MAX(number) FROM scheduler_attempt") == [(10, 1)]
    [(made, newest)] = product.says("SELECT COUNT(*), MAX(number) FROM scheduler_round")
    assert made == newest > rounds
    assert product.says("SELECT COUNT(*) FROM scheduler_event WHERE kind = 'report_rejected'") == [(0,)]


def test_both_simulations_workers_work_at_once(product: Product) -> None:
    """Two questions with more runs than one worker makes at a time: the other takes what is left."""
    start = {"kind": "generator", "text": "philly?jobs=4000&load=1.3", "cluster": LONG}
    seeds = list(range(1, min(10, os.cpu_count() or 1) + 1))
    for number, port in enumerate(product.ports):
        body = {"name": f"Question {number}", "start": start, "variants": [{"policy": "las"}, {"policy": "srtf"}]}
        product.post(port, "/api/v1/whatif", {**body, "seeds": seeds})

    wait_for(
        "two at once",
        lambda: (
            product.says("SELECT COUNT(DISTINCT worker) FROM scheduler_scenariorun WHERE state = 'running'") == [(2,)]
        ),
        within_s=120,
    )
