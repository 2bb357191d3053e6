"""Start the product with a given number of CPU slots on one server, and run jobs that log their steps."""

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scheduler.management.demo import demo_servers, machine_gpus
from tests.support.e2e.stack import RECORDS, Client, Stack, wait_for

# Counts steps of a given length with the runtime and notes when each ended. A step keeps a core busy, or sleeps; while
# it sleeps it may hold a lock, as something that only one can use at a time.
STEPPING = """
import fcntl, sys, time
from agents.runtime import Run

total, step_s, busy_s, record = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
lock = open(sys.argv[5], "w") if len(sys.argv) > 5 else None
run = Run(total_steps=total, checkpoint_every_s=None)
state = run.resume() or {"steps": 0}
run.on_checkpoint(lambda: state)
with open(record, "a", buffering=1) as file:
    for step in run.steps():
        end = time.thread_time() + busy_s
        while time.thread_time() < end:
            pass
        if lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
        time.sleep(step_s)
        if lock:
            fcntl.flock(lock, fcntl.LOCK_UN)
        state["steps"] += 1
        file.write(f"{step} {time.time()}\\n")
"""

SMALL: dict[str, object] = {"gpus": 1, "cpus": 0.25, "memory": "200MB"}


class Cluster:
    """One server of a running product, as an admin sees it."""

    def __init__(self, stack: Stack, records: Path) -> None:
        self.stack, self.records = stack, records
        self.admin: Client = stack.client("admin")

    def settings(self, **changes: object) -> None:
        """Change settings of the scheduler."""
        version = self.admin.get("/api/v1/settings")["version"]
        answer = self.admin.call(
            "PATCH", "/api/v1/settings", {**changes, "reason": "measured"}, {"If-Match": f'"{version}"'}
        )
        assert answer.status == 200, answer.text

    def slots(self, count: int, *, cpu_ids: tuple[int, ...] = ()) -> None:
        """Offer so many slots on the first server, on these cores or all, and none on the others."""
        path = self.stack.var_dir / "agents" / "server-01.json"
        cores = {"cpu_ids": list(cpu_ids)} if cpu_ids else {}
        path.write_text(json.dumps({**json.loads(path.read_text()), "cpu_slots": count, **cores}))
        self.stack.kill("celery", "agents")  # their keepers start them again
        self.drain()
        wait_for("slots", lambda: self._healthy(self._server("server-01")) == count, within_s=120)

    def drain(self) -> None:
        """Offer nothing of the second server."""
        self.admin.call("POST", f"/api/v1/servers/{self._server('server-02')}/drain", {"reason": "measured"})
        wait_for("drained", lambda: self._healthy(self._server("server-02")) < 0, within_s=60)

    def undrain(self) -> None:
        """Undrain the second server."""
        self.admin.call("POST", f"/api/v1/servers/{self._server('server-02')}/undrain", {"reason": "measured"})
        wait_for("offered", lambda: self._healthy(self._server("server-02")) > 0, within_s=60)

    def _server(self, name: str) -> str:
        servers = self.admin.get("/api/v1/servers")["results"]
        return next(str(server["id"]) for server in servers if server["name"] == name)

    def _healthy(self, server_id: str) -> int:
        server = self.admin.get(f"/api/v1/servers/{server_id}")
        return int(server["num_gpus"]) - int(server["broken_gpus"]) if server["state"] == "up" else -1

    def stepping(
        self,
        name: str,
        *,
        step_s: float = 0.0,
        busy_s: float = 0.0,
        lock: str = "",
        resources: dict[str, object] = SMALL,
    ) -> str:
        """Submit a job that notes its steps, and never ends; return its id."""
        command = ["python", "-S", "step.py", str(10**9), str(step_s), str(busy_s), str(self.records / name)]
        command += [str(self.records / lock)] if lock else []
        return self.admin.submit(
            name=name, queue="vision", command=command, files={"step.py": STEPPING}, resources=resources
        )

    def noted(self, name: str) -> list[tuple[int, float]]:
        """Return the steps that a job has noted: number and POSIX time."""
        path = self.records / name
        lines = path.read_text().splitlines() if path.exists() else []
        return [(int(step), float(at)) for step, at in (line.split() for line in lines if line.count(" ") == 1)]

    def cancel(self, *job_ids: str) -> None:
        """End jobs and wait until they have."""
        for job_id in job_ids:
            self.admin.call("POST", f"/api/v1/jobs/{job_id}/cancel")
        for job_id in job_ids:
            self.admin.wait_state(job_id, "cancelled", "completed", within_s=120)


@contextmanager
def cluster(**environment: str) -> Iterator[Cluster]:
    """Start the product and stop it again."""
    with tempfile.TemporaryDirectory(prefix="clusterweb-runtime-") as directory:
        stack = Stack(Path(directory) / "var", LEASE_TTL_S="30", ROUND_S="10", **environment)
        try:
            stack.start(within_s=180, servers=len(demo_servers(machine_gpus())))
            yield Cluster(stack, Path(tempfile.mkdtemp(dir=RECORDS.name)))
            stack.interrupt()
        finally:
            stack.destroy()
