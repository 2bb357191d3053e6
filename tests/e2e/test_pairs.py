"""Packing by the whole product: two jobs on one slot, measured against taking turns, kept or taken apart."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.stack import Client, Stack, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.timed]
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
# Says nothing of its speed, so that nobody is tried beside it.
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


def verdict(member: Client, name: str, *arguments: str) -> tuple[str, float, dict[str, Any]]:
    """Run two jobs; return what became of their first trial, after how many seconds, and what was measured."""
    jobs = [
        member.submit(
            name=f"{name}-{number}",
            queue="vision",
            command=["python", "-S", "waits.py", *arguments],
            files={"waits.py": WAITS},
        )
        for number in (1, 2)
    ]

    def ended() -> tuple[dict[str, Any], dict[str, Any]] | None:
        told = [event for event in member.get(f"/api/v1/jobs/{jobs[0]}/events")["results"] if event["kind"] == "trial"]
        told.sort(key=lambda event: str(event["at"]))
        return (told[0], told[1]) if len(told) > 1 else None

    tried, judged = wait_for(f"a verdict on {name}", ended, within_s=120, every_s=0.5)
    together = {member.job(job)["state"] for job in jobs}
    for job in jobs:
        member.call("POST", f"/api/v1/jobs/{job}/cancel")
    for job in jobs:
        member.wait_state(job, "cancelled")
    took_s = (datetime.fromisoformat(judged["at"]) - datetime.fromisoformat(tried["at"])).total_seconds()
    assert tried["reason"] == "pack_trying"
    assert (together == {"running"}) == (judged["reason"] == "pack_kept"), together
    return judged["reason"], took_s, judged["data"]


def test_pair_that_gains_is_kept_and_one_that_loses_is_undone(one_slot: Client, tmp_path: Path) -> None:
    """Two that only wait keep the slot together; two that are in each other's way take turns within two quanta."""
    kept, _, gains = verdict(one_slot, "waits")
    undone, took_s, loses = verdict(one_slot, "fights", str(tmp_path / "lock"))

    assert (kept, undone) == ("pack_kept", "pack_undone")
    assert gains["gain"] > 1.5
    assert loses["gain"] < 1.0
    assert took_s <= 2 * QUANTUM_S
    assert all(rate > 0 for told in (gains, loses) for rate in told["rates_before"])
