"""Jobs that run as a user of their own: what they can do, and what they cannot."""

import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.host.identity import send_signal
from agents.host.isolation import trial
from agents.host.job_users import FIRST_UID, is_free, own_folder
from agents.host.launch_names import CODE_PATH
from tests.support.agents.server import AgentServer, marked, script, wait_for, wanted

QUEUE = 7
UID = FIRST_UID + QUEUE


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that others may pass through, unlike those that pytest makes."""
    if os.geteuid() != 0:
        pytest.skip("JOBS OF USERS OF THEIR OWN ARE NOT TESTED: only root can give a process another user")
    path = Path(tempfile.mkdtemp(prefix="clusterweb-isolation-"))
    os.chmod(path, 0o711)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def server(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AgentServer]:
    """A server whose agent can give users to jobs."""
    attempts = place / "shared" / "attempts"
    attempts.mkdir(parents=True)
    pythons = (sys.executable, "/usr/bin/python3")
    problems = {python: trial(attempts, code_path=CODE_PATH, interpreter=python) for python in pythons}
    python = next((python for python, problem in problems.items() if not problem), None)
    if python is None:
        pytest.skip(f"JOBS OF USERS OF THEIR OWN ARE NOT TESTED: no Python here that other users may run: {problems}")
    monkeypatch.setattr(sys, "executable", python)
    made = AgentServer(place)
    made.start()
    yield made
    made.end()


def answers(server: AgentServer, text: str, **order: object) -> dict[str, object]:
    """Run a script that prints one line of JSON last; return it."""
    job = wanted(script(text), queue_id=QUEUE, **order)
    server.send(job)
    report = server.wait_phase(job, "ended")
    assert report.end_cause == "completed", (report, server.log(job))
    found: dict[str, object] = json.loads(server.log(job).splitlines()[-1])
    return found


WHO = """
import json, os, resource
print(json.dumps({"uid": os.getresuid(), "gid": os.getresgid(), "groups": os.getgroups(), "home": os.environ["HOME"],
    "owner": os.stat(".").st_uid, "processes": resource.getrlimit(resource.RLIMIT_NPROC)[0],
    "privileges": [line for line in open("/proc/self/status") if line.startswith(("CapEff", "NoNewPrivs"))],
    "names": sorted(os.environ)}))
"""


def test_job_is_nobody_but_its_queues_user(server: AgentServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """User, groups, capabilities, limits and environment; the server's report says so."""
    monkeypatch.setenv("AGENT_SECRET", "of the agent")
    found = answers(server, WHO, env={"SEED": "1"})

    assert server.mail.newest[1].isolation == "user"
    assert found["uid"] == found["gid"] == [UID, UID, UID]
    assert found["groups"] == []
    assert found["owner"] == UID
    assert found["processes"] == 32_768
    assert found["privileges"] == ["CapEff:\t0000000000000000\n", "NoNewPrivs:\t1\n"]
    names = found["names"]
    assert isinstance(names, list)
    assert "AGENT_SECRET" not in names
    assert not [name for name in names if "KEY" in name or "TOKEN" in name or "REDIS" in name]


HOSTILE = """
import json, os, signal
def trying(act):
    try:
        return str(act() or "done")
    except OSError as error:
        return type(error).__name__
here = os.path.dirname(os.getcwd())
attempts = os.path.dirname(here)
state = %r
print(json.dumps({
    "launch": trying(lambda: open(here + "/launch.json").read()),
    "forge": trying(lambda: open(here + "/state.json", "w").write("{}")),
    "replace": trying(lambda: os.rename(here + "/reports.jsonl", here + "/state.json")),
    "add": trying(lambda: open(here + "/control.json.new", "w").write("{}")),
    "list": trying(lambda: os.listdir(attempts)),
    "agent": trying(lambda: os.listdir(state)),
    "kill": trying(lambda: os.kill(os.getppid(), signal.SIGKILL)),
    "root": trying(lambda: os.setuid(0)),
    "peek": trying(lambda: open(f"/proc/{os.getppid()}/environ", "rb").read()),
    "report": trying(lambda: open(here + "/reports.jsonl", "a").write("")),
    "work": trying(lambda: open("mine", "w").write("")),
}))
"""


def test_job_can_do_its_work_and_nothing_to_others(server: AgentServer) -> None:
    """Not read its launch, nor forge its state, nor signal its supervisor, nor look at others."""
    found = answers(server, HOSTILE % str(server.config.state_dir))

    allowed = {name for name, answer in found.items() if answer == "done"}
    assert allowed == {"report", "work"}
    assert set(found.values()) == {"done", "PermissionError"}


TRAINS = """
import sys, time
sys.path.insert(0, %r)
from agents.runtime import Run
run = Run(total_steps=10_000, checkpoint_every_s=0.2)
state = run.resume() or {"sum": 0}
run.on_checkpoint(lambda: state)
print("from", run.step, flush=True)
for step in run.steps():
    time.sleep(0.01)
    state["sum"] += step
"""


def test_job_reports_is_asked_to_stop_and_goes_on_from_its_checkpoint(server: AgentServer) -> None:
    """All that supervisor and job tell each other gets through; another queue's job cannot read the checkpoint."""
    train = script(TRAINS % CODE_PATH)
    first = wanted(train, queue_id=QUEUE)
    server.send(first)
    wait_for("a checkpoint", lambda: (report := server.report(first)) and report.checkpoint_name)
    server.send(wanted(train, queue_id=QUEUE, attempt_id=first.attempt_id, wanted="preempt"))
    report = server.wait_phase(first, "ended")
    assert (report.end_cause, report.exit_code) == ("preempted", 75)
    assert report.checkpoint_step

    resume = {"resume_attempt_id": first.attempt_id, "resume_name": report.checkpoint_name}
    same, other = wanted(train, queue_id=QUEUE, **resume), wanted(train, queue_id=QUEUE + 1, gpu_indexes=(1,), **resume)
    server.send(same, other)
    wait_for("both begin", lambda: "from" in server.log(same) and "from" in server.log(other))

    assert f"from {report.checkpoint_step}" in server.log(same)
    assert "from 0" in server.log(other)


def test_checkpoints_of_the_time_before_are_handed_over(server: AgentServer) -> None:
    """A job that ran as the agent's own user goes on where it was."""
    train = script(TRAINS % CODE_PATH)
    first = wanted(train, queue_id=QUEUE)
    server.send(first)
    report = wait_for(
        "a checkpoint", lambda: found if (found := server.report(first)) and found.checkpoint_name else None
    )
    server.send()
    wait_for("its end", lambda: not marked(first.attempt_id))
    for path in [server.directory(first) / "checkpoints", *(server.directory(first) / "checkpoints").iterdir()]:
        os.chown(path, 0, 0)
        os.chmod(path, 0o700 if path.is_dir() else 0o600)
    again = wanted(train, queue_id=QUEUE, resume_attempt_id=first.attempt_id, resume_name=report.checkpoint_name)
    server.send(again)
    wait_for("it begins", lambda: "from" in server.log(again))

    assert "from 0" not in server.log(again)


def test_job_never_outlives_its_supervisor(server: AgentServer) -> None:
    """Becoming another user does not lose the signal of the parent's death."""
    job = wanted(script("import time; time.sleep(600)"), queue_id=QUEUE)
    server.send(job)
    server.wait_phase(job, "running")
    assert marked(job.attempt_id)
    send_signal(server.supervisor(job), signal.SIGKILL)

    wait_for("no process", lambda: not marked(job.attempt_id))
    assert server.wait_phase(job, "ended").end_cause == "supervisor_lost"


def test_place_that_others_cannot_reach_isolates_nothing_and_says_so(place: Path) -> None:
    """The report is what was tried, not what was hoped for."""
    closed = place / "closed"
    closed.mkdir(mode=0o700)
    server = AgentServer(closed)
    server.start()
    try:
        found = answers(server, "import json, os; print(json.dumps({'uid': os.getuid()}))")

        assert server.mail.newest[1].isolation == "none"
        assert found["uid"] == 0
    finally:
        server.end()


def test_numbers_of_accounts_and_folders_of_others_are_not_used(place: Path) -> None:
    """An existing account is never a job's; a folder that another user made first is left alone."""
    (place / "taken").mkdir()

    assert not is_free(0)
    assert not is_free(65_534)
    assert own_folder(place / "own", UID)
    assert own_folder(place / "own", UID)
    assert not own_folder(place / "own", UID + 1)
    assert not own_folder(place / "taken", UID)
