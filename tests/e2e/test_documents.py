"""The README and the documents, followed to the letter: scripts and commands are taken from their text."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.e2e.stack import ROOT, Client, Stack


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


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_lead_does_all_by_rest_that_the_document_shows(stack: Stack, tmp_path: Path) -> None:
    """The lead of a queue its part, an admin the quota itself; each line is answered, and sets what it says."""
    text = (ROOT / "docs" / "leads.md").read_text()
    of_lead = block(text, "## The same by REST", "bash")
    of_admin = block(text, "The quota itself is changed by", "bash")
    names = "".join(line for line in of_lead.splitlines(keepends=True) if re.match(r"[A-Z]=|etag\(", line))
    admin = stack.client("admin")
    before = {name: admin.get(f"/api/v1/queues/{name}") for name in ("vision", "speech")}
    ended = [
        shell(stack, stack.client("lead").token, of_lead, tmp_path),
        shell(stack, admin.token, names + of_admin, tmp_path),
    ]
    after = {name: admin.get(f"/api/v1/queues/{name}") for name in before}
    put_back(admin, before["vision"], {"speech": before["speech"]["quota_gpus"]})
    asked = [row for row in admin.get("/api/v1/quota-requests")["results"] if row["state"] == "open"]
    for row in asked:
        stack.client("lead").call("POST", f"/api/v1/quota-requests/{row['id']}/withdraw")

    assert [one.returncode for one in ended] == [0, 0], "".join(one.stdout + one.stderr for one in ended)
    assert [after[name]["quota_gpus"] for name in before] == [3, 1]
    assert after["vision"]["user_max_gpus"] == 2
    assert (after["vision"]["idle_after_s"], after["vision"]["keep_directories_days"]) == (7200, 14)


def shell(stack: Stack, token: str, commands: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """Run a block of a document with a token; a request that is refused ends it."""
    refusals_fail = 'curl() { command curl --fail-with-body -sS "$@" && echo; }\n'
    return subprocess.run(
        ["bash", "-e", "-c", refusals_fail + commands.replace("http://127.0.0.1:8000", stack.url)],
        cwd=directory,
        env={**os.environ, "CLUSTERWEB_TOKEN": token},
        capture_output=True,
        text=True,
        timeout=300,
    )


def put_back(admin: Client, queue: dict[str, object], moves: dict[str, object]) -> None:
    """Give a queue the quota, limits and rules that it had."""
    parts = {
        "": ("quota_gpus",),
        "/limits": ("user_max_gpus",),
        "/idle": ("idle_after_s", "idle_action"),
        "/files": ("keep_directories_days", "directories_most_bytes"),
    }
    path = f"/api/v1/queues/{queue['name']}"
    for part, fields in parts.items():
        version = admin.call("GET", path).headers.get("etag", "")
        body = {field: queue[field] for field in fields} | {"reason": "as before"} | ({} if part else {"moves": moves})
        answer = admin.call("PATCH", f"{path}{part}", body, headers={"If-Match": version})
        assert answer.status == 200, answer.text


def test_admin_runs_what_the_document_shows_beside_the_product(stack: Stack, tmp_path: Path) -> None:
    """A server is added, a backup made and the key of secrets changed while everything runs."""
    text = (ROOT / "docs" / "admins.md").read_text()
    shown = [line.split("#")[0].split() for line in text.splitlines() if re.match(r"manage\.py [a-z_]+ ", line)]
    commands = [words for words in shown if words[1] != "restore"]  # refused while anything works on the database
    assert [words[1] for words in commands] == ["add_server", "backup", "rotate_secrets"]
    for words in commands:
        here = [word.replace("/var/lib/clusterweb", str(tmp_path)) for word in words[1:]]
        ended = subprocess.run(
            [sys.executable, str(ROOT / "manage.py"), *here],
            cwd=tmp_path,
            env={**os.environ, **stack.environment, "VAR_DIR": str(stack.var_dir), "PORT": str(stack.port)},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert ended.returncode == 0, ended.stderr
    admin = stack.client("admin")
    assert admin.get("/readyz")["ready"]
    removed = admin.call("POST", "/api/v1/servers/gpu-01/remove", {"reason": "as before"})

    assert removed.status == 204, removed.text
    assert (tmp_path / "gpu-01.json").is_file()
    assert list(tmp_path.glob("*.backup"))
