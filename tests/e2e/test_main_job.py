"""The main job from one end to the other: submit, train, preempt, suspend, resume, kill -9 of its agent, complete."""

from pathlib import Path

from tests.support.e2e.scripts import COUNTING
from tests.support.e2e.stack import Client, Stack, wait_for


def counting(
    client: Client, record: Path, *, name: str, queue: str, steps: int, step_s: float = 0.1, **spec: object
) -> str:
    """Submit the counting script; return the job's id."""
    return client.submit(
        name=name,
        queue=queue,
        command=["python", "count.py", str(steps), str(step_s), str(record)],
        files={"count.py": COUNTING},
        **spec,
    )


def steps_of(record: Path) -> list[int]:
    """Return the recorded steps in the order they were trained."""
    return [int(line.split()[0]) for line in record.read_text().splitlines()] if record.exists() else []


def test_job_trains_and_completes(stack: Stack) -> None:
    """A workload with torch trains with falling loss, and its log is readable by REST."""
    member = stack.client("member")
    job_id = member.submit(
        name="mobilenet-e2e", queue="vision", command=["python", "-m", "agents.workloads.mobilenet", "--steps", "30"]
    )

    job = member.wait_state(job_id, "completed", "failed", within_s=120)
    log = member.call("GET", f"/api/v1/jobs/{job_id}/logs?tail=100", headers={"Accept": "text/plain"})

    assert job["state"] == "completed", log.text
    assert job["step"] == 30
    assert "loss" in log.text


def test_owner_takes_its_quota_back_and_the_borrower_resumes(stack: Stack, tmp_path: Path) -> None:
    """Preempted jobs checkpoint, wait with a reason, resume elsewhere or later, and train each step exactly once."""
    member, outsider = stack.client("member"), stack.client("outsider")
    records = [tmp_path / f"vision-{i}" for i in range(4)]
    borrowers = [counting(member, r, name=r.name, queue="vision", steps=150) for r in records]
    for job_id in borrowers:
        member.wait_state(job_id, "running")
    owners = [
        counting(outsider, tmp_path / f"speech-{i}", name=f"speech-{i}", queue="speech", steps=30) for i in range(2)
    ]

    for job_id in owners:
        outsider.wait_state(job_id, "running", "completed")
    preempted = [j for j in map(member.job, borrowers) if j["preemptions"] > 0]
    finished = [member.wait_state(job_id, "completed", "failed", within_s=120) for job_id in borrowers]

    assert preempted
    assert [job["state"] for job in finished] == ["completed"] * 4
    assert [sorted(steps_of(record)) for record in records] == [sorted(set(steps_of(r))) for r in records]
    assert all(len(steps_of(record)) == 150 for record in records)
    events = member.get(f"/api/v1/jobs/{preempted[0]['id']}/events")["results"]
    assert {"preempting", "queued", "launching", "running"} <= {event["new_state"] for event in events}


def test_suspend_and_resume(stack: Stack, tmp_path: Path) -> None:
    """A suspended job gives its slot back and continues at the next step."""
    member = stack.client("member")
    record = tmp_path / "paused"
    job_id = counting(member, record, name="paused", queue="vision", steps=60)
    wait_for("ten steps", lambda: len(steps_of(record)) > 10)
    member.call("POST", f"/api/v1/jobs/{job_id}/suspend")
    member.wait_state(job_id, "suspended")
    before = len(steps_of(record))
    member.call("POST", f"/api/v1/jobs/{job_id}/resume")

    job = member.wait_state(job_id, "completed", "failed", within_s=60)

    assert job["state"] == "completed"
    assert before < 60
    assert len(steps_of(record)) == len(set(steps_of(record))) == 60


def test_killed_agent_adopts_its_running_job(stack: Stack, tmp_path: Path) -> None:
    """Training goes on while the agent is dead; the new agent takes it over; no step is trained twice."""
    member = stack.client("member")
    record = tmp_path / "adopted"
    job_id = counting(member, record, name="adopted", queue="vision", steps=100)
    wait_for("ten steps", lambda: len(steps_of(record)) > 10)
    before = len(steps_of(record))
    stack.kill("-m agents", "worker") if stack.processes("-m agents", "worker") else stack.kill("celery", "agents")
    wait_for("training goes on", lambda: len(steps_of(record)) > before + 3)

    job = member.wait_state(job_id, "completed", "failed", within_s=60)

    assert job["state"] == "completed"
    assert steps_of(record) == list(range(100))
    assert len({line.split()[1] for line in record.read_text().splitlines()}) == 1
    assert len(member.get(f"/api/v1/jobs/{job_id}/attempts")["results"]) == 1


def test_cancelled_job_ends_and_leaves_no_process(stack: Stack, tmp_path: Path) -> None:
    """Cancel reaches the running process."""
    member = stack.client("member")
    record = tmp_path / "cancelled"
    job_id = counting(member, record, name="cancelled", queue="vision", steps=5000)
    wait_for("some steps", lambda: len(steps_of(record)) > 3)
    member.call("POST", f"/api/v1/jobs/{job_id}/cancel")

    member.wait_state(job_id, "cancelled")

    wait_for("no process", lambda: not stack.processes(str(record)))


def test_stranger_sees_nothing_of_a_job(stack: Stack, tmp_path: Path) -> None:
    """A user without a role in the queue gets 404 on every route of the job."""
    member, outsider = stack.client("member"), stack.client("outsider")
    job_id = counting(member, tmp_path / "private", name="private", queue="vision", steps=2)
    member.wait_state(job_id, "completed")

    for route in ("", "/events", "/attempts", "/explain", "/series", "/logs", "/placement"):
        assert outsider.call("GET", f"/api/v1/jobs/{job_id}{route}").status == 404, route
    assert outsider.call("POST", f"/api/v1/jobs/{job_id}/cancel").status == 404
    assert job_id not in outsider.call("GET", "/api/v1/jobs").text
