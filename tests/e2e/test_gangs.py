"""Gangs over several servers, by the whole product."""

import contextlib
import os
import signal
from pathlib import Path

import pytest

from tests.e2e.stack import Client, Stack, wait_for

pytestmark = pytest.mark.slow

LSTM = ["python", "-m", "agents.workloads.lstm", "--depth", "1", "--width", "16", "--rows", "128", "--size", "16"]


def lstm(client: Client, *, name: str, steps: int, record: Path, **resources: object) -> str:
    """Submit the smallest workload; return the job's id."""
    command = [*LSTM, "--batch", "12", "--steps", str(steps), "--write-steps", str(record)]
    return client.submit(name=name, queue="vision", command=command, resources=resources)


def losses(record: Path) -> list[float]:
    """Return the loss of each step, in order; every rank writes them all."""
    found: dict[int, float] = {}
    for line in record.read_text().splitlines() if record.exists() else []:
        step, loss = line.split()
        found.setdefault(int(step), float.fromhex(loss))
    return [found[step] for step in sorted(found)]


def test_gang_over_two_servers_trains_as_one_rank_does(stack: Stack, tmp_path: Path) -> None:
    """Three GPUs on servers of two: every step has the loss of a job that trains alone."""
    member = stack.client("member")
    alone = lstm(member, name="alone", steps=40, record=tmp_path / "alone")
    member.wait_state(alone, "completed", "failed", within_s=120)
    gang = lstm(member, name="gang", steps=40, record=tmp_path / "gang", gpus=3, max_servers=2)

    job = member.wait_state(gang, "completed", "failed", within_s=180)

    log = member.call("GET", f"/api/v1/jobs/{gang}/logs?tail=100", headers={"Accept": "text/plain"}).text
    attempt = member.get(f"/api/v1/jobs/{gang}/attempts")["results"][0]
    assert job["state"] == "completed", (job, log)
    assert job["step"] == 40
    assert sorted(len(seat["gpus"]) for seat in attempt["servers"]) == [1, 2]
    assert losses(tmp_path / "gang") == pytest.approx(losses(tmp_path / "alone"), rel=1e-4)


def test_killed_rank_ends_the_gang_which_goes_on_from_its_checkpoint(stack: Stack, tmp_path: Path) -> None:
    """All processes end, the cause is that of the one that was killed, and the job is planned again."""
    member = stack.client("member")
    gang = lstm(member, name="hit", steps=3000, record=tmp_path / "hit", gpus=3, max_servers=2)
    wait_for("steps", lambda: len(losses(tmp_path / "hit")) > 20, within_s=120)
    first = stack.processes("agents.workloads.lstm", str(tmp_path / "hit"))
    os.kill(max(process.pid for process in first), signal.SIGKILL)
    again = wait_for(
        "a second attempt",
        lambda: [a for a in member.get(f"/api/v1/jobs/{gang}/attempts")["results"] if a["number"] == 2],
        within_s=90,
    )
    attempts = member.get(f"/api/v1/jobs/{gang}/attempts")["results"]
    ended = next(attempt for attempt in attempts if attempt["number"] == 1)
    with contextlib.suppress(AssertionError):
        member.wait_state(gang, "running", within_s=60)
    member.call("POST", f"/api/v1/jobs/{gang}/cancel")
    member.wait_state(gang, "cancelled", within_s=60)

    assert again
    assert (ended["end_cause"], ended["exit_signal"]) == ("signal", 9)
    assert not any(process.is_running() for process in first)
