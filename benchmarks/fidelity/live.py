"""Start the product with three CPU slots on each of two agents, and run jobs on it."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.fidelity.workload import FILES, KINDS, PRIORITIES, Kinds, Planned
from tests.support.e2e.stack import Client, Stack, wait_for

ROUND_S = 1.0
SLOTS_A_SERVER = 3
NUM_SLOTS = 2 * SLOTS_A_SERVER
# Between two looks at a job: each of them takes CPU time from what is trained.
LOOK_EVERY_S = 0.5
ENDED = ("completed", "failed", "cancelled")
LOCALITY, MECHANISM = "consolidate", "proportional"


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A running product and what is trained on it.

    Attributes:
        client: An admin's.
        num_slots: Slots of all its servers.
        kinds: What jobs train.
        resources: What each job asks for; one slot.
    """

    client: Client
    num_slots: int
    kinds: Kinds
    resources: Mapping[str, object]


@contextmanager
def product() -> Iterator[Field]:
    """Start the product with two servers of three slots, and stop it again."""
    with TemporaryDirectory(prefix="fidelity-") as folder:
        stack = Stack(Path(folder) / "var", ROUND_S=str(ROUND_S), LEASE_TTL_S="30", LOST_GRACE_S="15")
        try:
            stack.start()
            stack.interrupt()
            for path in (stack.var_dir / "agents").glob("server-*.json"):
                path.write_text(json.dumps({**json.loads(path.read_text()), "cpu_slots": SLOTS_A_SERVER}))
            stack.start()
            client = stack.client("admin")
            wait_for("all slots", lambda: _num_slots(client) == NUM_SLOTS)
            resources = {"gpus": 1, "cpus": 0.25, "memory": "200MB"}
            yield Field(client=client, num_slots=NUM_SLOTS, kinds=KINDS, resources=resources)
        finally:
            stack.destroy()


def _num_slots(client: Client) -> int:
    """Return the slots that the agents offer now; those of the first start count as broken."""
    servers = client.get("/api/v1/servers")["results"]
    return sum(int(row["num_gpus"]) - int(row["broken_gpus"]) for row in servers)


def settings_set(client: Client, policy: str, options: Mapping[str, object]) -> None:
    """Change how rounds decide."""
    client.change_settings(policy=policy, policy_options=options, locality=LOCALITY, mechanism=MECHANISM)


def submit(field: Field, kind: str, steps: int, *, priority: int = PRIORITIES[0]) -> str:
    """Submit a job that trains so many steps; return its id."""
    client = field.client
    return client.submit(
        name=kind,
        queue=next(row["name"] for row in client.get("/api/v1/queues")["results"] if row["is_leaf"]),
        command=[*field.kinds[kind], str(steps)],
        files=FILES,
        resources=field.resources,
        progress={"total_steps": steps},
        schedule={"priority": priority},
    )


def wait_for_beat(client: Client) -> None:
    """Return at a moment at which rounds come by themselves: there a replay begins to count."""
    rounds = client.get("/api/v1/rounds?limit=50")["results"]
    beat_s = max(seconds(row["started_at"]) for row in rounds if row["trigger"] == "beat")
    time.sleep(ROUND_S - (time.time() - beat_s) % ROUND_S)


def run_jobs(field: Field, jobs: Sequence[Planned], steps: Sequence[int]) -> list[dict[str, Any]]:
    """Submit each job at its time; return all of them, with their attempts, when the last has ended."""
    client, began_s, ids = field.client, time.monotonic(), []
    for job, count in zip(jobs, steps, strict=True):
        time.sleep(max(0.0, began_s + job.arrival_s - time.monotonic()))
        ids.append(submit(field, job.kind, count, priority=job.priority))
    for key in ids:
        while client.job(key)["state"] not in ENDED:
            time.sleep(LOOK_EVERY_S)
    done = [client.job(key) for key in ids]
    failed = [job["end_detail"] for job in done if job["state"] != "completed"]
    assert not failed, failed[:3]
    return [{**ended, "attempts": client.get(f"/api/v1/jobs/{ended['id']}/attempts")["results"]} for ended in done]


def seconds(text: str) -> float:
    """Return a time of the API as seconds since 1970."""
    return datetime.fromisoformat(text).timestamp()
