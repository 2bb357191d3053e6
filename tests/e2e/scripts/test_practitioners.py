"""The scripts of "Move your script here", as they stand on the page, sent by the command and trained to their end."""

from pathlib import Path

import pytest
import yaml

from tests.e2e.test_command import command
from tests.support.e2e.stack import Stack, wait_for
from tests.support.suite.page_scripts import page_files


@pytest.mark.parametrize(
    ("title", "last"),
    [
        ("PyTorch that saves to a folder", "step 400 loss 0."),
        ("A shell script around it", "trained on 1000 rows"),
        ("Your own loop", ""),
        ("torchrun over two servers", ""),
    ],
)
def test_script_of_the_page_trains(stack: Stack, tmp_path: Path, title: str, last: str) -> None:
    """Nothing is added to its files, and nothing said to the command but the folder."""
    for name, text in page_files(title).items():
        (tmp_path / name).write_text(text)
    done = command(stack, tmp_path, "submit", ".", "--wait")
    member = stack.client("member")
    job = member.get("/api/v1/jobs?limit=1")["results"][0]
    attempts = member.get(f"/api/v1/jobs/{job['id']}/attempts")["results"]

    assert done.returncode == 0, done.stdout + done.stderr
    assert last in done.stdout
    assert job["step"] == (None if last else job["total_steps"])
    assert len(attempts[0]["servers"]) == (2 if "two servers" in title else 1)


def test_ranks_of_two_servers_save_and_stop_at_one_step(stack: Stack) -> None:
    """A pause reaches both servers at their own moments; all ranks leave after the same step, which is saved."""
    files = page_files("torchrun over two servers")
    spec = yaml.safe_load(files.pop("job.yaml"))
    spec |= {"name": "pauses", "files": files, "env": {"STEPS": "100000000"}}
    member = stack.client("member")
    job_id = member.submit(**{key: value for key, value in spec.items() if key != "apiVersion"})
    wait_for("steps", lambda: (member.job(job_id)["step"] or 0) > 3, within_s=120)
    assert member.call("POST", f"/api/v1/jobs/{job_id}/suspend").status == 200
    paused = member.wait_state(job_id, "suspended", within_s=120)
    assert member.call("POST", f"/api/v1/jobs/{job_id}/resume").status == 200
    again = wait_for(
        "steps of the second attempt",
        lambda: [
            attempt
            for attempt in member.get(f"/api/v1/jobs/{job_id}/attempts")["results"]
            if attempt["number"] == 2 and (attempt["last_step"] or 0) > paused["step"]
        ],
        within_s=120,
    )
    member.call("POST", f"/api/v1/jobs/{job_id}/cancel")
    member.wait_state(job_id, "cancelled", within_s=120)
    first = next(a for a in member.get(f"/api/v1/jobs/{job_id}/attempts")["results"] if a["number"] == 1)

    assert paused["checkpoint"]["step"] == paused["step"] > 3
    assert again[0]["first_step"] == paused["step"]
    assert first["end_cause"] == "suspended"
    assert len(first["servers"]) == 2
