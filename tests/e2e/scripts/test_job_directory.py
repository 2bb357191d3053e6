"""A script that knows nothing of Clusterweb, through the whole product: it goes on where it saved, wherever it runs."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.support.agents.plain_script import PLAIN, STEPS, weight_after
from tests.support.e2e.stack import Client, Stack, wait_for

RIVAL: dict[str, Any] = {
    "apiVersion": "v1",
    "queue": "vision",
    "command": ["python", "-S", "-c", "import time; time.sleep(1)"],
    "schedule": {"priority": 90},
}
SHOWS = """
import json
print("ended as", json.load(open("out/last.json"))[:2], json.load(open("out/last.json"))[2] == list(range(%d)))
"""

# So often, and steps so long that the script is not at its end before.
TIMES, STEP_S = 20, 0.6


@pytest.fixture
def priorities(stack: Stack) -> Iterator[Stack]:
    """The product where priorities decide who runs; afterwards as it was."""
    admin = stack.client("admin")
    before = admin.get("/api/v1/settings")
    admin.change_settings(policy="priority", policy_options={"preemptive": True})
    yield stack
    admin.change_settings(**{name: before[name] for name in ("policy", "policy_options")})


def preempted(member: Client, job_id: str, *, than: int) -> dict[str, Any] | None:
    """Return the job once it was preempted more often than so, or has ended."""
    job = member.job(job_id)
    return job if job["preemptions"] > than or job["state"] == "completed" else None


@pytest.mark.timeout(3600)
def test_plain_script_survives_preemptions(priorities: Stack) -> None:
    """Preempted for more urgent jobs again and again over two servers: each step once after its last own save."""
    member = priorities.client("member")
    script = PLAIN.replace("0.01", str(STEP_S)) + SHOWS % STEPS
    job_id = member.submit(
        name="plain",
        queue="vision",
        command=["python", "-S", "plain.py"],
        files={"plain.py": script, "begun": "0"},
        schedule={"priority": 1},
        checkpoint={"grace": "5s"},
    )
    for done in range(TIMES):
        member.wait_state(job_id, "running", "completed")
        # All at once: one by one the first ones may have ended before the last needs the slot of the script.
        bulk = member.call("POST", "/api/v1/jobs/bulk", {"jobs": [RIVAL | {"name": f"rival-{n}"} for n in range(4)]})
        rivals = [job["id"] for job in bulk.json["results"]]
        wait_for("room for the urgent", partial(preempted, member, job_id, than=done))
        for rival in rivals:
            member.wait_state(rival, "completed")
    job = member.wait_state(job_id, "completed", "failed", within_s=600)
    log = member.call("GET", f"/api/v1/jobs/{job_id}/logs?tail=50", headers={"Accept": "text/plain"}).text

    assert job["preemptions"] >= TIMES
    assert f"ended as [{STEPS}, {weight_after(STEPS)}] True" in log
    assert job["directory"]["size_bytes"] > 0
    assert job["actions"] == ["keep", "discard"]

    member.call("POST", f"/api/v1/jobs/{job_id}/discard")
    wait_for("its files are gone", lambda: not (priorities.var_dir / "shared" / "jobs" / job_id).exists())
    wait_for("and that is known", lambda: member.job(job_id)["directory"]["removed_at"], within_s=120)
