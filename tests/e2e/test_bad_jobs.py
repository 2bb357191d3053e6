"""Jobs that crash, hang, eat memory, flood or destroy: the right state, the right cause, and the agent lives."""

import pytest

from tests.support.e2e import scripts
from tests.support.e2e.stack import Client, Stack, wait_for


def submit(client: Client, name: str, script: str, **spec: object) -> str:
    """Submit a one-file script."""
    return client.submit(name=name, queue="vision", command=["python", "job.py"], files={"job.py": script}, **spec)


@pytest.fixture(scope="module")
def bad(stack: Stack) -> dict[str, str]:
    """The ids of jobs that each end by themselves, by name: all at once, since their order does not matter."""
    member = stack.client("member")
    return {
        "plain": submit(member, "plain", scripts.PLAIN),
        "crash": submit(member, "crash", scripts.CRASHES),
        "hungry": submit(member, "hungry", scripts.HUNGRY, resources={"gpus": 1, "memory": "200MiB"}),
        "flood": submit(member, "flood", scripts.FLOOD),
        "vandal": submit(member, "vandal", scripts.DELETES_ITS_DIRECTORY),
        "typo": member.submit(name="typo", queue="vision", command=["pyhton", "train.py"]),
    }


def last_attempt(client: Client, job_id: str) -> dict[str, object]:
    """Return the newest attempt."""
    found: dict[str, object] = client.get(f"/api/v1/jobs/{job_id}/attempts")["results"][-1]
    return found


def test_script_without_the_runtime_completes(stack: Stack, bad: dict[str, str]) -> None:
    """A script that knows nothing of us runs as well."""
    job = stack.client("member").wait_state(bad["plain"], "completed", "failed", within_s=150)

    assert job["state"] == "completed"


def test_crash_is_retried_once_and_then_failed_with_its_exit_code(stack: Stack, bad: dict[str, str]) -> None:
    """The same failure twice is not tried a third time."""
    member = stack.client("member")
    job_id = bad["crash"]

    job = member.wait_state(job_id, "failed", within_s=150)
    log = member.call("GET", f"/api/v1/jobs/{job_id}/logs?tail=50", headers={"Accept": "text/plain"}).text

    assert job["end_cause"] == "exit_code"
    assert last_attempt(member, job_id)["exit_code"] == 1
    assert "label 11 is out of range" in log


def test_memory_over_the_grant_ends_as_out_of_memory(stack: Stack, bad: dict[str, str]) -> None:
    """The cause names the memory, and the agent lives."""
    member = stack.client("member")
    job_id = bad["hungry"]

    job = member.wait_state(job_id, "failed", within_s=150)

    assert job["end_cause"] == "out_of_memory"
    assert stack.servers_up() == 2


def test_job_that_ignores_term_is_killed_after_the_grace(stack: Stack) -> None:
    """Cancel wins in the end."""
    member = stack.client("member")
    job_id = submit(member, "stubborn", scripts.IGNORES_TERM, checkpoint={"grace": "2s"})
    member.wait_state(job_id, "running", within_s=150)
    member.call("POST", f"/api/v1/jobs/{job_id}/cancel")

    member.wait_state(job_id, "cancelled")

    wait_for("no process", lambda: not stack.processes("job.py"))


def test_log_flood_of_one_gigabyte_keeps_disk_and_agent_alive(stack: Stack, bad: dict[str, str]) -> None:
    """The log keeps its newest part and the job completes."""
    member = stack.client("member")
    job_id = bad["flood"]

    job = member.wait_state(job_id, "completed", "failed", within_s=150)
    attempt = last_attempt(member, job_id)
    kept = sum(p.stat().st_size for p in (stack.var_dir / "shared" / "attempts" / str(attempt["id"])).glob("log.*"))

    assert job["state"] == "completed"
    assert kept < 200 * 1024 * 1024
    assert stack.servers_up() == 2


def test_job_that_deletes_its_directory_still_ends(stack: Stack, bad: dict[str, str]) -> None:
    """Its log up to the end is there."""
    member = stack.client("member")
    job_id = bad["vandal"]

    job = member.wait_state(job_id, "completed", "failed", within_s=150)
    log = member.call("GET", f"/api/v1/jobs/{job_id}/logs?tail=50", headers={"Accept": "text/plain"}).text

    assert job["state"] == "completed"
    assert "directory is gone" in log


def test_command_that_does_not_exist_is_not_retried(stack: Stack, bad: dict[str, str]) -> None:
    """The cause says so at once."""
    member = stack.client("member")
    job_id = bad["typo"]

    job = member.wait_state(job_id, "failed", within_s=150)

    assert job["end_cause"] == "command_not_found"
    assert len(member.get(f"/api/v1/jobs/{job_id}/attempts")["results"]) == 1


def test_five_wrong_fields_give_five_entries(stack: Stack) -> None:
    """Every bad field is named, in one answer."""
    answer = stack.client("member").call(
        "POST",
        "/api/v1/jobs",
        {
            "apiVersion": "v1",
            "name": "",
            "queue": "nowhere",
            "command": "python train.py",
            "resources": {"gpus": 0, "memory": "64"},
        },
    )

    assert answer.status == 400
    assert answer.headers["content-type"].startswith("application/problem+json")
    assert {error["pointer"] for error in answer.json["errors"]} == {
        "/name", "/queue", "/command", "/resources/gpus", "/resources/memory",
    }  # fmt: skip


def test_more_gpus_than_there_could_ever_be_is_refused_with_the_largest_number(stack: Stack) -> None:
    """The refusal comes at submit and names what would be possible."""
    answer = stack.client("member").call(
        "POST",
        "/api/v1/jobs",
        {"apiVersion": "v1", "name": "huge", "queue": "vision", "command": ["true"], "resources": {"gpus": 64}},
    )

    assert answer.status == 400
    [error] = answer.json["errors"]
    assert error["pointer"] == "/resources/gpus"
    assert "2" in error["detail"]
    assert "64" in error["detail"]
