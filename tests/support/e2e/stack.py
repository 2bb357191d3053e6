"""The whole product as a user starts it, on free ports and in a directory of its own."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import psutil

ROOT = Path(__file__).resolve().parents[3]
T = TypeVar("T")


# Deadlines only end what hangs: on a busy machine all things take this many times as long as on a quiet one.
PATIENCE = 4.0


def wait_for(what: str, check: Callable[[], T | None], *, within_s: float = 60.0, every_s: float = 0.1) -> T:
    """Return the first true value of ``check``; fail with ``what`` if none comes in ``PATIENCE`` times the seconds."""
    within_s *= PATIENCE
    end_s = time.monotonic() + within_s
    while True:
        value = check()
        if value:
            return value
        if time.monotonic() > end_s:
            raise AssertionError(f"not within {within_s:.0f} s: {what}")
        time.sleep(every_s)


def free_port() -> int:
    """Return a port that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass(frozen=True)
class Answer:
    """One HTTP answer."""

    status: int
    text: str
    headers: dict[str, str]

    @property
    def json(self) -> Any:
        """Return the body as JSON."""
        return json.loads(self.text)


class Client:
    """REST client with one user's token."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url
        self.token = token

    def call(self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None) -> Answer:
        """Send one request; an error status is an answer too."""
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}{path}", data=data, method=method)
        request.add_header("Authorization", f"Bearer {self.token}")
        if data is not None:
            request.add_header("Content-Type", "application/json")
        for name, value in (headers or {}).items():
            request.add_header(name, value)
        try:
            with urllib.request.urlopen(request, timeout=30 * PATIENCE) as response:
                return Answer(response.status, response.read().decode(errors="surrogateescape"), dict(response.headers))
        except urllib.error.HTTPError as error:
            return Answer(error.code, error.read().decode(), dict(error.headers))

    def get(self, path: str) -> Any:
        """Return the JSON of a GET that must succeed."""
        answer = self.call("GET", path)
        assert answer.status == 200, (path, answer.status, answer.text)
        return answer.json

    def submit(self, **spec: Any) -> str:
        """Submit a job; return its id."""
        answer = self.call("POST", "/api/v1/jobs", {"apiVersion": "v1", **spec})
        assert answer.status == 201, (answer.status, answer.text)
        return str(answer.json["id"])

    def change_settings(self, **changes: object) -> None:
        """Change settings of the scheduler."""
        headers = {name.lower(): value for name, value in self.call("GET", "/api/v1/settings").headers.items()}
        answer = self.call(
            "PATCH", "/api/v1/settings", {**changes, "reason": "test"}, headers={"If-Match": headers["etag"]}
        )
        assert answer.status == 200, answer.text

    def job(self, job_id: str) -> dict[str, Any]:
        """Return one job."""
        found: dict[str, Any] = self.get(f"/api/v1/jobs/{job_id}")
        return found

    def wait_state(self, job_id: str, *states: str, within_s: float = 60.0) -> dict[str, Any]:
        """Return the job once it is in one of the states."""
        seen: dict[str, Any] = {}

        def check() -> dict[str, Any] | None:
            seen.clear()
            with contextlib.suppress(urllib.error.URLError, OSError):  # web may be restarting
                seen.update(self.job(job_id))
            return seen if seen.get("state") in states else None

        try:
            return wait_for(f"{job_id} in {states}", check, within_s=within_s)
        except AssertionError as error:
            raise AssertionError(f"{error}; it is {seen}") from None


# Where jobs of the tests write what the tests read; the agents open it for them.
RECORDS = tempfile.TemporaryDirectory(prefix="clusterweb-records-")
os.chmod(RECORDS.name, 0o1777)  # jobs of a product that root started have users of their own


class Stack:
    """A running product. Everything it starts carries ``var_dir`` in its environment or arguments."""

    def __init__(self, var_dir: Path, **environment: str) -> None:
        self.var_dir = var_dir
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        # Tests that are told of something listen on this machine.
        here = {"WEBHOOK_NETWORKS": "127.0.0.0/8"}
        self.environment = {
            "ROUND_S": "2",
            "DEMO_JOBS": "0",
            "DEMO_MIN_RUN_S": "0",  # tests of preemption need not wait
            # Short, but not so short that on a busy machine an agent that starts again looks lost.
            "LEASE_TTL_S": "20",
            "LOST_GRACE_S": "8",
            "JOB_WRITE_DIRS": RECORDS.name,
            **here,
            **environment,
        }
        self.process: subprocess.Popen[bytes] | None = None
        self.log = var_dir.parent / f"{var_dir.name}.log"

    def start(self, *, within_s: float = 90.0, servers: int = 2) -> None:
        """Start everything and return when it is ready and so many servers report."""
        environ = {**os.environ, **self.environment, "VAR_DIR": str(self.var_dir), "PORT": str(self.port)}
        for name in ("REDIS_URL", "HOST", "DJANGO_SETTINGS_MODULE"):
            environ.pop(name, None)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "clusterweb.stack"],
                cwd=ROOT,
                env=environ,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        wait_for("ready", self.ready, within_s=within_s)
        wait_for("all servers up", lambda: self.servers_up() == servers)

    def ready(self) -> bool:
        """Return whether ``/readyz`` answers 200."""
        assert self.process
        assert self.process.poll() is None, self.tail()
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=2) as response:
                return bool(response.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def servers_up(self) -> int:
        """Return how many servers report."""
        return sum(server["state"] == "up" for server in self.client("admin").get("/api/v1/servers")["results"])

    def client(self, user: str) -> Client:
        """Return a REST client of one of the demo's users."""
        demo = json.loads((self.var_dir / "demo.json").read_text())
        return Client(self.url, demo["users"][user]["token"])

    def password(self, user: str) -> str:
        """Return the password of one of the demo's users."""
        return str(json.loads((self.var_dir / "demo.json").read_text())["users"][user]["password"])

    def interrupt(self, *, within_s: float = 45.0) -> int:
        """Press Ctrl-C and return the exit status."""
        assert self.process
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(timeout=PATIENCE * within_s)

    def processes(self, *needles: str) -> list[psutil.Process]:
        """Return our processes, zombies left out, whose command line has every needle."""
        mark = str(self.var_dir)
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                command = " ".join(process.cmdline())
                ours = mark in command or any(mark in value for value in process.environ().values())
                if ours and process.status() != psutil.STATUS_ZOMBIE and all(n in command for n in needles):
                    found.append(process)
        return found

    def kill(self, *needles: str) -> list[int]:
        """Send SIGKILL to the processes found by the needles, keepers spared; return their pids."""
        victims = [p for p in self.processes(*needles) if "clusterweb.keep" not in " ".join(p.cmdline())]
        assert victims, f"nothing to kill: {needles}"
        for process in victims:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        return [process.pid for process in victims]

    def tail(self) -> str:
        """Return the end of the product's output, for a failing test."""
        return self.log.read_text(errors="replace")[-6000:] if self.log.exists() else ""

    def destroy(self) -> None:
        """Stop everything, by force if need be."""
        if self.process and self.process.poll() is None:
            try:
                self.interrupt()
            except subprocess.TimeoutExpired:
                self.process.kill()
        for process in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
