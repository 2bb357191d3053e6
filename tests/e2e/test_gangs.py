"""Gangs over several servers, by the whole product."""

import contextlib
import os
import signal
from pathlib import Path

import pytest

from tests.support.e2e.scripts import GANG
from tests.support.e2e.stack import Client, Stack, wait_for


def gang_of(client: Client, record: Path, *, steps: int, **resources: object) -> str:
    """Submit a gang that takes its time; return the job's id."""
    return client.submit(
        name=record.name,
        queue="vision",
        command=["python", "train.py", str(steps), str(record)],
        files={"train.py": GANG},
        resources=resources,
    )


def hurry(record: Path) -> None:
    """Let the gangs beside this record train without a pause."""
    (record.parent / "hurry").touch()


def losses(record: Path) -> list[float]:
    """Return the loss of each step, in order; every rank writes them all."""
    found: dict[int, float] = {}
    for line in record.read_text().splitlines() if record.exists() else []:
        step, loss, _ = line.split()
        found.setdefault(int(step), float.fromhex(loss))
    return [found[step] for step in sorted(found)]


def test_gang_over_two_servers_trains_as_one_rank_does(stack: Stack, tmp_path: Path) -> None:
    """Three GPUs on servers of two: every step has the loss of a job that trains alone."""
    member = stack.client("member")
    hurry(tmp_path / "gang")
    gang = gang_of(member, tmp_path / "gang", steps=40, gpus=3, max_servers=2)
    alone = gang_of(member, tmp_path / "alone", steps=40)
    member.wait_state(alone, "completed", "failed", within_s=180)

    job = member.wait_state(gang, "completed", "failed", within_s=180)

    log = member.call("GET", f"/api/v1/jobs/{gang}/logs?tail=100", headers={"Accept": "text/plain"}).text
    attempt = member.get(f"/api/v1/jobs/{gang}/attempts")["results"][0]
    assert job["state"] == "completed", (job, log)
    assert job["step"] == 40
    assert sorted(len(seat["gpus"]) for seat in attempt["servers"]) == [1, 2]
    assert losses(tmp_path / "gang") == pytest.approx(losses(tmp_path / "alone"), rel=1e-4)
    assert [member.get(f"/api/v1/jobs/{gang}/logs?rank={rank}")["text"] for rank in (1, 2)] == ["rank 1\n", "rank 2\n"]


def test_killed_rank_ends_the_gang_which_goes_on_from_its_checkpoint(faulty: Stack, tmp_path: Path) -> None:
    """All processes end, the cause is that of the one that was killed, and the job is planned again."""
    member = faulty.client("member")
    gang = gang_of(member, tmp_path / "hit", steps=3000, gpus=3, max_servers=2)
    wait_for("steps", lambda: len(losses(tmp_path / "hit")) > 20, within_s=120)
    first = faulty.processes("train.py", str(tmp_path / "hit"))
    assert len(first) == 3
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


def test_elastic_job_shrinks_for_others_and_grows_again(stack: Stack, tmp_path: Path) -> None:
    """Under max-min it gives GPUs to jobs that come and takes them back, without a restart and with the same losses."""
    admin, member = stack.client("admin"), stack.client("member")
    before = admin.get("/api/v1/settings")["policy"]
    _use_policy(admin, "maxmin")
    try:
        elastic = gang_of(member, tmp_path / "elastic", steps=3000, gpus=1, max_gpus=4, max_servers=2)
        wait_for("steps on all four", lambda: len(losses(tmp_path / "elastic")) > 10, within_s=120)
        assert member.get(f"/api/v1/jobs/{elastic}/attempts")["results"][0]["num_gpus"] == 4
        sleep = ["python", "-c", "import time; time.sleep(5)"]
        others = [member.submit(name=f"rigid-{n}", queue="vision", command=sleep) for n in range(2)]
        others.append(gang_of(member, tmp_path / "alone", steps=500))
        wait_for("one", lambda: _ranks(member, elastic)[-1:] == [1], within_s=120)
        for job_id in others:
            member.wait_state(job_id, "completed", "failed", within_s=180)
        wait_for("all four again", lambda: _ranks(member, elastic)[-1:] == [4], within_s=120)
        hurry(tmp_path / "elastic")
        job = member.wait_state(elastic, "completed", "failed", within_s=180)
    finally:
        _use_policy(admin, before)

    attempts = member.get(f"/api/v1/jobs/{elastic}/attempts")["results"]
    events = member.get(f"/api/v1/jobs/{elastic}/events?limit=200")["results"]
    story = "\n".join(f"{e['at']} {e['kind']} {e['new_state']} {e['reason']} {e['data']}" for e in events)
    assert (job["state"], job["step"], len(attempts)) == ("completed", 3000, 1), story
    assert losses(tmp_path / "elastic")[:500] == pytest.approx(losses(tmp_path / "alone"), rel=1e-3)


def _ranks(client: Client, job_id: str) -> list[int]:
    """Return the sizes that the gang has switched to."""
    events = client.get(f"/api/v1/jobs/{job_id}/events?limit=200")["results"]
    return [e["data"]["gpus"] for e in events if (e["kind"], e["reason"]) == ("job_resized", "switched")]


def _use_policy(admin: Client, policy: str) -> None:
    """Decide by another policy from the next round on."""
    headers = admin.call("GET", "/api/v1/settings").headers
    etag = next(value for name, value in headers.items() if name.lower() == "etag")
    answer = admin.call("PATCH", "/api/v1/settings", {"policy": policy, "reason": "test"}, headers={"If-Match": etag})
    assert answer.status == 200, answer.text
