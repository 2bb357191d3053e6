"""Kill -9 of each part under load: no accepted job is lost, none is trained twice."""

import contextlib
import itertools
import json
import os
import threading
import time
import urllib.error
from pathlib import Path

import pytest

from agents.core.records import GANG_FILE
from tests.e2e.test_main_job import counting, steps_of
from tests.support.e2e.stack import Stack, wait_for


def test_killed_server_hands_its_job_to_the_other(faulty: Stack, tmp_path: Path) -> None:
    """Agent, supervisor and trainer die together: the job continues from its checkpoint on the other server."""
    member = faulty.client("member")
    record = tmp_path / "moved"
    job_id = counting(member, record, name="moved", queue="vision", steps=120)
    wait_for("a checkpoint", lambda: member.job(job_id)["checkpoint"])
    attempt = member.get(f"/api/v1/jobs/{job_id}/attempts")["results"][-1]
    server = attempt["servers"][0]["server"]
    config = faulty.var_dir / "agents" / f"{server}.json"
    kill_whole_server(faulty, config, attempt["id"])

    job = member.wait_state(job_id, "completed", "failed", within_s=90)
    attempts = member.get(f"/api/v1/jobs/{job_id}/attempts")["results"]

    assert job["state"] == "completed"
    assert sorted(set(steps_of(record))) == list(range(120))
    assert attempts[0]["end_cause"] == "server_lost"
    assert attempts[1]["servers"][0]["server"] != server
    wait_for("the server is back", lambda: faulty.servers_up() == 2, within_s=60)


def kill_whole_server(stack: Stack, config: Path, attempt_id: str) -> None:
    """Kill the agent with its keeper for longer than the lease, and everything of the attempt."""
    stop = time.monotonic() + float(stack.environment["LEASE_TTL_S"]) + float(stack.environment["LOST_GRACE_S"]) + 2
    while time.monotonic() < stop:
        for process in stack.processes():
            with contextlib.suppress(Exception):
                environ = process.environ()
                agent = environ.get("AGENT_CONFIG") == str(config) and "clusterweb.keep" not in " ".join(
                    process.cmdline()
                )
                if agent or attempt_id in " ".join(process.cmdline()) or attempt_id in " ".join(environ.values()):
                    process.kill()
        time.sleep(0.2)


@pytest.mark.parametrize("victim", ["scheduler", "web", "redis"])
def test_killed_control_plane_loses_no_accepted_job(stack: Stack, tmp_path: Path, victim: str) -> None:
    """Every submit that was answered 201 ends completed, once, whatever dies meanwhile."""
    member = stack.client("member")
    needles = {"scheduler": ("celery", "-Q scheduler"), "web": ("uvicorn",), "redis": ("valkey-server",)}[victim]
    if victim == "redis" and not stack.processes(*needles):
        needles = ("redis-server",)
    accepted: list[tuple[str, Path]] = []

    def submit(index: int) -> None:
        record = tmp_path / f"job-{index}"
        accepted.append((counting(member, record, name=f"{victim}-{index}", queue="vision", steps=5), record))

    for index in range(4):
        submit(index)
    killer = threading.Thread(target=stack.kill, args=needles)
    killer.start()
    for index in range(4, 12):
        with contextlib.suppress(urllib.error.URLError, OSError, AssertionError):
            submit(index)
        time.sleep(0.2)
    killer.join()

    wait_for("ready again", stack.ready)
    for job_id, record in accepted:
        assert member.wait_state(job_id, "completed", "failed", within_s=120)["state"] == "completed"
        assert steps_of(record) == list(range(5))


def test_process_journal_shows_no_overlap(stack: Stack, tmp_path: Path) -> None:
    """Of no job do two attempts run at the same time, by the witness of the supervisors.

    Jobs that are gangs are left out: each of their processes is an attempt to its agent, and they run together. Only
    the leader has the list of all.
    """
    member = stack.client("member")
    member.wait_state(counting(member, tmp_path / "last", name="last", queue="vision", steps=5), "completed")
    attempts = stack.var_dir / "shared" / "attempts"
    gangs: set[str] = set()
    intervals: dict[str, list[tuple[float, float]]] = {}
    for path in (stack.var_dir / "agents").glob("*/journal*"):
        starts: dict[str, tuple[str, float]] = {}
        for line in path.read_text().splitlines():
            entry = json.loads(line)
            if entry["event"] == "start" and (attempts / entry["attempt_id"] / GANG_FILE).exists():
                gangs.add(entry["job_id"])
            if entry["event"] == "start":
                starts[entry["attempt_id"]] = (entry["job_id"], entry["boottime_s"])
            elif entry["event"] == "exit" and entry["attempt_id"] in starts:
                job_id, began = starts.pop(entry["attempt_id"])
                intervals.setdefault(job_id, []).append((began, entry["boottime_s"]))

    alone = {job_id: found for job_id, found in intervals.items() if job_id not in gangs}
    assert alone
    for job_id, found in alone.items():
        ordered = sorted(found)
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(ordered)), (job_id, ordered)
    assert os.path.exists(stack.var_dir)
