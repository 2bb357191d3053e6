"""The ``clusterweb`` command against the whole product: submit, follow, and take the status of the job."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.e2e.stack import ROOT, Stack

SPEC = "apiVersion: v1\nname: {name}\nqueue: vision\ncommand: [python, train.py]\nretry: {{max: 0}}\n"


def command(stack: Stack, directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command as the demo's member."""
    env = {"PATH": os.environ["PATH"], "HOME": str(directory), "PYTHONPATH": str(ROOT)}
    env |= {"CLUSTERWEB_URL": stack.url, "CLUSTERWEB_TOKEN": stack.client("member").token}
    return subprocess.run(
        [sys.executable, "-m", "clusterweb.cli", *arguments],
        cwd=directory,
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_submit_and_wait_prints_the_log_and_ends_like_the_job(stack: Stack, tmp_path: Path) -> None:
    """--wait follows the log to its end and exits with the status of the job: 0, or its own."""
    (tmp_path / "job.yaml").write_text(SPEC.format(name="good"))
    (tmp_path / "train.py").write_text("print('first line')\nprint('last line')\n")
    good = command(stack, tmp_path, "submit", "job.yaml", "--file", "train.py", "--wait")
    (tmp_path / "train.py").write_text("import sys\nprint('about to fail')\nsys.exit(7)\n")
    bad = command(stack, tmp_path, "submit", "job.yaml", "--file", "train.py", "--wait")

    assert good.returncode == 0, good.stderr
    assert good.stdout.endswith("first line\nlast line\n")
    assert "about to fail" in bad.stdout
    assert bad.returncode == 7, bad.stderr
