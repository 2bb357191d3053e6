"""What a member's job finds out on the machine where the whole product runs: no key, no password, no token."""

import base64
import json
from pathlib import Path

import pytest

from agents.host.landlock import SIGNALS_ABI, abi
from clusterweb.config.broker import socket_path
from tests.support.e2e.stack import ROOT, Stack

# Reads all that it can open; what it looks for stands in its own files only in disguise.
SEARCHING = """
import base64, json, os, socket, sys, urllib.error, urllib.request
told = json.load(open("told.json"))
secrets = {name: base64.b64decode(text)[::-1] for name, text in told["secrets"].items()}
found, opened = [], 0
def look(path):
    global opened
    try:
        with open(path, "rb") as file:
            content = file.read(8_000_000)
    except (OSError, ValueError):
        return
    opened += 1
    found.extend([name, path] for name, secret in secrets.items() if secret in content)
for root in told["roots"]:
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if os.path.join(folder, name) not in told["huge"]]
        for name in files:
            if not os.path.islink(os.path.join(folder, name)) and os.path.isfile(os.path.join(folder, name)):
                look(os.path.join(folder, name))
for pid in filter(str.isdigit, os.listdir("/proc")):
    for name in ("environ", "cmdline", "maps"):
        look(f"/proc/{pid}/{name}")
def answer_of_broker():
    with socket.socket(socket.AF_UNIX) as broker:
        try:
            broker.connect(told["broker"])
            broker.sendall(b"LLEN scheduler\\r\\n")
            return broker.recv(100).decode()
        except OSError as error:
            return type(error).__name__
def status_of(path):
    try:
        with urllib.request.urlopen(told["url"] + path) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code
print(json.dumps({"found": found, "opened": opened, "broker": answer_of_broker(), "jobs": status_of("/api/v1/jobs")}))
"""


def secrets_of(var_dir: Path) -> dict[str, str]:
    """Return every secret of a running product."""
    demo = json.loads((var_dir / "demo.json").read_text())
    told = {
        "signing key of the web process": (var_dir / "secret_key").read_text(),
        "key of secrets": (var_dir / "secrets_keys").read_text().strip().rpartition(":")[2],
        "password of the broker": (var_dir / "redis" / "password").read_text(),
    }
    for name, user in demo["users"].items():
        told |= {f"token of {name}": user["token"], f"password of {name}": user["password"]}
    for path in (var_dir / "agents").glob("*.json"):
        told[f"key of {path.stem}"] = json.loads(path.read_text())["key_hex"]
    return {name: text.strip() for name, text in told.items()}


@pytest.mark.skipif(abi() < SIGNALS_ABI, reason="CONFINEMENT IS NOT TESTED: this kernel has no Landlock")
def test_job_finds_no_key_on_the_machine_of_the_product(stack: Stack) -> None:
    """It looks into every file and process that it can, and at the doors of broker and web."""
    secrets = secrets_of(stack.var_dir)
    assert len(secrets) >= 8, sorted(secrets)
    told = {
        "secrets": {name: base64.b64encode(text.encode()[::-1]).decode() for name, text in secrets.items()},
        "roots": [str(stack.var_dir), str(ROOT), "/tmp", "/root", "/home", "/dev/shm", "/run", "/etc", "/var"],
        "huge": [str(ROOT / ".venv"), str(ROOT / "fixtures"), "/var/lib", "/var/cache"],
        "broker": str(socket_path(stack.var_dir)),
        "url": stack.url,
    }
    member = stack.client("member")
    job_id = member.submit(
        name="searching",
        queue="vision",
        command=["python", "search.py"],
        files={"search.py": SEARCHING, "told.json": json.dumps(told)},
    )
    job = member.wait_state(job_id, "completed", "failed", within_s=150)
    log = member.call("GET", f"/api/v1/jobs/{job_id}/logs?tail=50", headers={"Accept": "text/plain"}).text

    assert job["state"] == "completed", log
    found = json.loads(log.splitlines()[-1])
    assert found["found"] == []
    assert found["opened"] > 10, "it looked at nothing"
    assert socket_path(stack.var_dir).is_socket()
    # Refused at the door, or by the folder before it, or (for a job with a passage) not even there.
    assert found["broker"].startswith("-NOAUTH") or found["broker"] in ("PermissionError", "FileNotFoundError")
    assert found["jobs"] == 401
