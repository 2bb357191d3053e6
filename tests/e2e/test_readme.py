"""The README's example, followed to the letter with curl: the script and the commands are taken from its text."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.e2e.stack import ROOT, Stack


def block(readme: str, after: str, language: str = "") -> str:
    """Return the first code block that follows a text."""
    found = re.search(rf"```{language}\n(.*?)```", readme[readme.index(after) :], re.DOTALL)
    assert found
    return found[1]


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_own_script_is_submitted_by_curl_and_completes(stack: Stack, tmp_path: Path) -> None:
    """A stranger's script of thirty lines trains, and its log is readable by REST."""
    readme = (ROOT / "README.md").read_text()
    (tmp_path / "train.py").write_text(block(readme, "Save this as", "python"))
    (tmp_path / "var").symlink_to(stack.var_dir)
    commands = block(readme, "and submit it:").replace("http://127.0.0.1:8000", stack.url)

    ended = subprocess.run(["bash", "-e", "-c", commands], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    found = re.search(r'"id": ?"([0-9A-Z]{26})"', ended.stdout)
    assert found, ended.stdout + ended.stderr
    member = stack.client("member")
    job = member.wait_state(found[1], "completed", "failed", within_s=150)
    log = member.call("GET", f"/api/v1/jobs/{found[1]}/logs?tail=100", headers={"Accept": "text/plain"}).text

    assert job["state"] == "completed", log
    assert "step 2500  loss" in log
