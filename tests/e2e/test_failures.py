"""Every class of failure, by real processes: the right cause, the line that says so, and the right retry."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_main_job import counting, steps_of
from tests.support.e2e import scripts
from tests.support.e2e.failing import IMPORTS, READS_ITEMS, SETTLES, cases
from tests.support.e2e.stack import Client, Stack, wait_for

GANG: dict[str, Any] = {"resources": {"gpus": 2}}


def attempts(client: Client, job_id: str) -> list[dict[str, Any]]:
    """Return the attempts of a job, oldest first."""
    found: list[dict[str, Any]] = client.get(f"/api/v1/jobs/{job_id}/attempts")["results"]
    return sorted(found, key=lambda attempt: int(attempt["number"]))


def log(client: Client, job_id: str, attempt: int) -> str:
    """Return the log of one attempt."""
    path = f"/api/v1/jobs/{job_id}/logs?tail=200&attempt={attempt}"
    return client.call("GET", path, headers={"Accept": "text/plain"}).text


def submit(client: Client, name: str, script: str, *arguments: str, **spec: Any) -> str:
    """Submit a one-file script."""
    command = ["python", "job.py", *arguments]
    return client.submit(name=name, queue="vision", command=command, files={"job.py": script}, **spec)


def test_each_failure_has_its_cause_its_line_and_its_retry(faulty: Stack, tmp_path: Path) -> None:
    """All at once on one product; those that can heal do, from the last good checkpoint.

    Beside them a job that has settled is complete before its last step, and says what it left unused.
    """
    member = faulty.client("member")
    every = cases(str(tmp_path / "network"))
    stays = {"schedule": {"preemptible": False}}
    settles = submit(member, "settles", SETTLES, progress={"early_stop": True}, **stays)
    ids = {case.name: member.submit(**case.job()) for case in every}

    for case in every:
        job = member.wait_state(ids[case.name], "completed", "failed", within_s=300)
        found = attempts(member, ids[case.name])
        assert (case.name, job["state"], job["failures"]) == (case.name, case.state, case.counted)
        assert (case.name, *(one["end_cause"] for one in found)) == (case.name, *case.causes)
        assert (case.name, *(one["failure"] for one in found)) == (case.name, *case.failures)
        assert case.line in found[0]["failure_line"], case.name
        assert bool(case.line) == bool(found[0]["failure_line"]) or case.name.startswith("fails-t"), case.name

    assert "abcdefgh" not in attempts(member, ids["fails-cuda-memory"])[0]["failure_line"]
    for name in ("fails-torn", "fails-flipped"):
        second = log(member, ids[name], 2)
        assert "missing or damaged, it is not used" in second, second
        assert "from 10" in second, second

    settled = member.wait_state(settles, "completed", "failed", within_s=240)
    assert (settled["state"], settled["end_cause"]) == ("completed", "early_stopped")
    assert settled["saved_gpu_s"] > 3_600
    assert settled["checkpoint"]["step"] == settled["step"]


def test_bad_item_is_left_out_by_the_next_job_as_well(stack: Stack, tmp_path: Path) -> None:
    """The first job finds it and goes on; another job of the same data never tries it."""
    member = stack.client("member")
    name = tmp_path.name
    first = submit(member, "items-1", READS_ITEMS, name, "1", "broken", "3")
    assert member.wait_state(first, "completed", "failed", within_s=120)["state"] == "completed"
    second = submit(member, "items-2", READS_ITEMS, name, "3", "1", "broken")
    assert member.wait_state(second, "completed", "failed", within_s=120)["state"] == "completed"

    assert "left out broken" in log(member, first, 1)
    assert "decoded [b'1', b'3'] left out ['broken']" in log(member, second, 1)


@pytest.fixture
def smoking(stack: Stack) -> Iterator[Stack]:
    """The product with smoke runs of four seconds."""
    stack.client("admin").change_settings(smoke_run_s=4.0)
    yield stack
    stack.client("admin").change_settings(smoke_run_s=0.0)


def test_gang_that_would_fail_does_so_on_one_gpu(smoking: Stack, tmp_path: Path) -> None:
    """What fails at once costs one slot; what does not gets its gang afterwards and begins anew."""
    member = smoking.client("member")
    bad = submit(member, "smoke-bad", IMPORTS, **GANG)
    good = counting(member, tmp_path / "smoke", name="smoke-good", queue="vision", steps=60, **GANG)
    failed = member.wait_state(bad, "failed", "completed", within_s=120)
    done = member.wait_state(good, "failed", "completed", within_s=120)

    assert (failed["state"], done["state"]) == ("failed", "completed")
    assert [(one["run_kind"], one["num_gpus"], one["failure"]) for one in attempts(member, bad)] == [
        ("smoke", 1, "import")
    ]
    assert [(one["run_kind"], one["num_gpus"], one["end_cause"]) for one in attempts(member, good)] == [
        ("smoke", 1, "smoke_passed"),
        ("full", 2, "completed"),
    ]
    assert attempts(member, good)[1]["first_step"] == 0


@contextmanager
def power_cut(stack: Stack, attempt: dict[str, Any]) -> Iterator[None]:
    """Kill the server of an attempt, all at once: its agent, which is not started again meanwhile, and the attempt."""
    config = str(stack.var_dir / "agents" / f"{attempt['servers'][0]['server']}.json")
    ours = [process for process in stack.processes() if process.environ().get("AGENT_CONFIG") == config]
    keepers = [process for process in ours if "clusterweb.keep" in " ".join(process.cmdline())]
    for keeper in keepers:
        keeper.suspend()
    for process in ours:
        if process not in keepers:
            process.kill()
    kill_supervisor(stack, attempt)
    yield
    for keeper in keepers:
        keeper.resume()


def kill_supervisor(stack: Stack, attempt: dict[str, Any]) -> None:
    """Kill the supervisor of an attempt; its job goes with it."""
    state = stack.var_dir / "shared" / "attempts" / str(attempt["id"]) / "state.json"
    os.kill(json.loads(state.read_text())["supervisor"]["pid"], signal.SIGKILL)


def test_lost_server_costs_its_jobs_no_attempt(faulty: Stack, tmp_path: Path) -> None:
    """Agent, supervisor and trainer are killed: the server's fault, charged to no job."""
    member = faulty.client("member")
    record = tmp_path / "lost"
    job_id = counting(member, record, name="loses-server", queue="vision", steps=120, retry={"max": 0})
    wait_for("a checkpoint", lambda: member.job(job_id)["checkpoint"])
    first = attempts(member, job_id)[0]
    with power_cut(faulty, first):
        wait_for("it is given up", lambda: attempts(member, job_id)[0]["end_cause"], within_s=60)
    job = member.wait_state(job_id, "completed", "failed", within_s=90)
    found = attempts(member, job_id)

    assert (job["state"], job["failures"]) == ("completed", 0)
    assert [(one["end_cause"], one["failure"]) for one in found] == [("server_lost", "node"), ("completed", "")]
    assert sorted(set(steps_of(record))) == list(range(120))
    wait_for("the server is back", lambda: faulty.servers_up() == 2, within_s=60)


def test_server_whose_attempts_fail_is_drained_and_an_admin_undrains_it(faulty: Stack) -> None:
    """Three supervisors are killed under two jobs of one server; the other is full, so they come back to it."""
    admin = faulty.client("admin")
    jobs = [submit(admin, f"unlucky-{index}", scripts.IGNORES_TERM) for index in range(4)]
    running = [admin.wait_state(job, "running") for job in jobs]
    target = running[0]["attempt"]["servers"][0]["server"]
    killed: set[str] = set()

    def server() -> dict[str, Any]:
        rows = admin.get("/api/v1/servers")["results"]
        return next(row for row in rows if row["name"] == target)

    def strike() -> bool:
        for job in jobs:
            attempt = admin.job(job)["attempt"]
            is_new = attempt and attempt["state"] == "running" and attempt["id"] not in killed
            if is_new and attempt["servers"][0]["server"] == target:
                killed.add(attempt["id"])
                kill_supervisor(faulty, attempt)
                break
        return bool(server()["state"] == "draining")

    try:
        wait_for("it is drained", strike, within_s=90, every_s=1.0)
        drained = server()
        answer = admin.call("POST", f"/api/v1/servers/{drained['id']}/undrain", {"reason": "looked at"})

        assert drained["state_reason"].endswith("failed on it within an hour: node")
        assert answer.status == 200, answer.text
        assert server()["state"] == "up"
    finally:
        for job in jobs:
            admin.call("POST", f"/api/v1/jobs/{job}/cancel")
        for job in jobs:
            admin.wait_state(job, "cancelled", "failed", "completed")
