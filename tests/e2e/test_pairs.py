"""Packing by the whole product: two jobs on one slot, measured against taking turns, kept or taken apart."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from scheduler.introspection.packing import Packing
from tests.support.e2e.stack import Client, Stack, wait_for

# A verdict takes as many rounds as on any machine, but a busy one takes its time for each.
pytestmark = pytest.mark.timeout(1800)
QUANTUM_S = 6.0
# A trial may take two quanta; the rest of the second one is for the round that judges.
TRIAL_S = 1.5 * QUANTUM_S

# Waits in each mini-batch. With a lock it waits for that first, and three times as long when it had to wait: two such
# jobs together do less than one alone, as where two working sets do not fit into one cache.
WAITS = """
import fcntl, sys, time
from agents.runtime import Run
run = Run(checkpoint_every_s=None)
run.on_checkpoint(lambda: {})
lock = open(sys.argv[1], "w") if len(sys.argv) > 1 else None
for step in run.steps():
    was_taken = False
    if lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(lock, fcntl.LOCK_EX)
            was_taken = True
    time.sleep(0.06 if was_taken else 0.02)
    if lock:
        fcntl.flock(lock, fcntl.LOCK_UN)
"""
# Says nothing of its speed, so that no job is tried beside it.
HOLDS_A_SLOT = "import time; time.sleep(600)"


@pytest.fixture
def one_slot(one_server: Stack) -> Iterator[Client]:
    """A member's client of the product with one slot to share, where pairs are tried; afterwards as it was."""
    admin, member = one_server.client("admin"), one_server.client("member")
    command = ["python", "-c", HOLDS_A_SLOT]
    holder = member.submit(name="holder", queue="vision", command=command, schedule={"preemptible": False})
    member.wait_state(holder, "running")
    options = {"slicing": {"quantum_s": QUANTUM_S}, "packing": {"look_s": QUANTUM_S, "trial_s": TRIAL_S}}
    admin.change_settings(introspection=["slicing", "packing"], introspection_options=options)
    yield member
    admin.change_settings(introspection=[])
    member.call("POST", f"/api/v1/jobs/{holder}/cancel")
    member.wait_state(holder, "cancelled")


def verdict(member: Client, name: str, *arguments: str) -> dict[str, Any]:
    """Run two jobs until their first trial is judged; return what they were told then, with the rounds it took.

    A trial is judged by the first round that begins when it is due.
    """
    jobs = [
        member.submit(
            name=f"{name}-{number}",
            queue="vision",
            command=["python", "-S", "waits.py", *arguments],
            files={"waits.py": WAITS},
        )
        for number in (1, 2)
    ]

    def told() -> list[dict[str, Any]]:
        events = member.get(f"/api/v1/jobs/{jobs[0]}/events?limit=500")["results"]
        return sorted((event for event in events if event["kind"] == "trial"), key=lambda event: str(event["at"]))

    tried, judged = wait_for(f"a verdict on {name}", lambda: told()[:2] if len(told()) > 1 else None, within_s=300)
    rounds = member.get("/api/v1/rounds?limit=500")["results"]
    expected = {"running"} if judged["reason"] == "pack_kept" else {"running", "parked"}
    wait_for(f"{expected} of {name}", lambda: {member.job(job)["state"] for job in jobs} == expected)
    for job in jobs:
        member.call("POST", f"/api/v1/jobs/{job}/cancel")
    for job in jobs:
        member.wait_state(job, "cancelled")
    assert tried["reason"] == "pack_trying"
    due = datetime.fromisoformat(tried["at"]) + timedelta(seconds=TRIAL_S)
    late = [
        r for r in rounds if due <= datetime.fromisoformat(r["started_at"]) and r["number"] < judged["data"]["round"]
    ]
    assert not late, (tried, judged, late)
    return judged


def test_pair_that_gains_is_kept_and_one_that_loses_is_undone(one_slot: Client, tmp_path: Path) -> None:
    """Two that only wait keep the slot together; two in each other's way are judged within two quanta to take turns."""
    kept = verdict(one_slot, "waits")
    undone = verdict(one_slot, "fights", str(tmp_path / "lock"))

    assert (kept["reason"], undone["reason"]) == ("pack_kept", "pack_undone")
    assert kept["data"]["gain"] > 1.5
    # Below 1 on a silent machine; on a busy one a job that has to wait for a core waits for the lock less often.
    assert undone["data"]["gain"] <= Packing().least_gain
    assert all(rate > 0 for told in (kept, undone) for rate in told["data"]["rates_before"])
