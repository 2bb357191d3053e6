"""The wheels, installed where nothing of the tree is: a program submits and follows a job, a script runs alone."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.agents.runtime_job import JobFolder
from tests.support.e2e.stack import ROOT, Stack

UV = Path(sys.executable).with_name("uv")
# Submits a folder, follows it, and leaves another job waiting until its patience ends.
PROGRAM = """
import json, sys
from clusterweb.client import Client, ServerRefused

client = Client()
spec = {"queue": "vision", "command": ["python", "train.py"], "retry": {"max": 0}}
job = client.submit({**spec, "name": "by-client"}, folder=sys.argv[1])
text = "".join(client.follow(job))
ended = client.wait(job)
rows = client.all("jobs", most=10, search="by-client")
sleeps = client.submit({**spec, "name": "sleeps"}, files={"train.py": b"import time; time.sleep(600)"})
try:
    client.wait(sleeps, timeout_s=0.0)
    waited = False
except TimeoutError as error:
    waited = str(error)
client.act(sleeps, "cancel")
try:
    client.submit({**spec, "name": "x", "resources": {"gpus": -1}})
    refused = ""
except ServerRefused as error:
    refused = str(error)
print(json.dumps({
    "text": text, "state": ended["state"], "step": ended["step"], "rows": [row["id"] == job["id"] for row in rows],
    "piece": "".join(client.logs(job, tail=1)), "waited": waited, "refused": refused,
    "cancelled": client.wait(sleeps)["state"], "from": sys.modules["clusterweb.client"].__file__,
}))
"""
# Runs in the job by the name of the wheel, which no job has installed.
TRAIN = """
import clusterweb_runtime.errors, agents.runtime.errors
from clusterweb_runtime import Run
assert clusterweb_runtime.errors.StateMismatch is agents.runtime.errors.StateMismatch
run = Run(total_steps=5)
run.on_checkpoint(lambda: {"w": 1.0})
for step in run.steps():
    run.report(loss=1.0 / (step + 1))
print("trained", run.step, flush=True)
"""
ALONE = """
import sys
from clusterweb_runtime import Run
run = Run(total_steps=20, checkpoint_every_steps=10)
state = run.resume() or {"sum": 0}
run.on_checkpoint(lambda: state)
for step in run.steps():
    state["sum"] += step
    if step == 11 and len(sys.argv) > 1:
        raise SystemExit(3)
print(state["sum"], [name for name in sys.modules if name.partition(".")[0] in ("agents", "torch")])
"""
WITH_TORCH = """
import torch
from clusterweb_runtime import dataset, gang, layer_placement, own_group, parking, sharded, torch_state
assert "agents" not in sys.modules
print(torch_state.__file__)
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that has the two wheels, and what they ask for."""
    place = tmp_path_factory.mktemp("wheels")
    subprocess.run([sys.executable, "-m", "clusterweb.wheels", str(place / "dist")], cwd=ROOT, check=True)
    environ = {**os.environ, "UV_CACHE_DIR": str(Path(sys.prefix) / "cache" / "uv")}
    subprocess.run([UV, "venv", "--quiet", "--python", sys.executable, str(place / "venv")], check=True, env=environ)
    python = place / "venv" / "bin" / "python"
    wheels = sorted(map(str, (place / "dist").glob("*.whl")))
    subprocess.run([UV, "pip", "install", "--quiet", "--python", str(python), *wheels], check=True, env=environ)
    return python


def ran(python: Path, *arguments: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a program of the environment, far from the tree."""
    return subprocess.run(
        [python, *arguments],
        cwd=cwd,
        env={"PATH": os.environ["PATH"], "HOME": str(cwd), **variables},
        capture_output=True,
        text=True,
        timeout=600,
    )


def test_client_and_command_use_a_running_server(stack: Stack, python: Path, tmp_path: Path) -> None:
    """By the installed wheel alone: a folder is sent, its log followed, its end awaited; the command lists the job."""
    folder = tmp_path / "package"
    folder.mkdir()
    (folder / "train.py").write_text(TRAIN)
    (folder / "big.log").write_text("ignored")
    (folder / ".gitignore").write_text("*.log\n")
    account = {"CLUSTERWEB_URL": stack.url, "CLUSTERWEB_TOKEN": stack.client("member").token}
    done = ran(python, "-c", PROGRAM, str(folder), cwd=tmp_path, **account)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    listed = ran(python.with_name("clusterweb"), "ls", "--search", "by-client", "-o", "json", cwd=tmp_path, **account)

    assert (found["state"], found["step"], found["rows"]) == ("completed", 5, [True])
    assert "trained 5\n" in found["text"]
    assert found["piece"] == "trained 5\n"
    assert " after 0 s" in found["waited"]
    assert "/resources/gpus" in found["refused"]
    assert found["cancelled"] == "cancelled"
    assert found["from"].startswith(str(python.parents[1]))
    assert [row["name"] for row in json.loads(listed.stdout)] == ["by-client"], listed.stderr


def test_runtime_runs_a_script_where_nothing_else_is(python: Path, tmp_path: Path) -> None:
    """Outside Clusterweb it trains; with the variables of an attempt it saves and goes on from there."""
    outside = ran(python, "-c", ALONE, cwd=tmp_path)
    first, again = JobFolder.create(tmp_path / "first"), JobFolder.create(tmp_path / "again")
    broken = ran(python, "-c", ALONE, "break", cwd=tmp_path, **first.environ())
    resumed = ran(python, "-c", ALONE, cwd=tmp_path, **again.environ(resume=first.checkpoints()[-1]))

    assert outside.stdout.endswith("190 []\n"), outside.stderr
    assert broken.returncode == 3
    assert [path.name[:11] for path in first.checkpoints()] == ["step-000010"]
    assert resumed.stdout == "190 []\n", resumed.stderr
    assert again.reports("started")[0]["step"] == 10


def test_parts_with_torch_import_from_the_wheel(python: Path, tmp_path: Path) -> None:
    """With the torch of this environment and the wheel of the other."""
    packages = next((python.parents[1] / "lib").glob("python*/site-packages"))
    done = ran(Path(sys.executable), "-c", f"import sys{WITH_TORCH}", cwd=tmp_path, PYTHONPATH=str(packages))

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(packages))
