"""The scripts of "Move your script here", as they stand on the page, sent by the command and trained to their end."""

from pathlib import Path

import pytest

from tests.e2e.test_command import command
from tests.support.e2e.stack import Stack
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
