"""Jobs that run as a user of their own: what they can do, and what they cannot."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agents.host.identity import send_signal
from agents.host.isolation import passage_of_jobs, trial
from agents.host.job_users import FIRST_UID, is_free, own_folder
from agents.host.landlock import abi
from agents.host.launch_names import CODE_PATH
from agents.loop import profile_of
from agents.telemetry import find_probe, nvml
from agents.telemetry.cpu import CpuSlots
from tests.support.agents.driver import FakeDriver
from tests.support.agents.server import AgentServer, marked, script, wait_for, wanted, warm_ready

QUEUE = 7
UID = FIRST_UID + QUEUE


def may_mount() -> bool:
    """Return whether this process may make a mount namespace."""
    return subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode == 0


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that others may pass through, unlike those that pytest makes."""
    if os.geteuid() != 0:
        pytest.skip("JOBS OF USERS OF THEIR OWN ARE NOT TESTED: only root can give a process another user")
    path = Path(tempfile.mkdtemp(prefix="clusterweb-isolation-"))
    os.chmod(path, 0o711)
    yield path
    shutil.rmtree(path)


def made_in(folder: Path, **changes: Any) -> AgentServer:
    """Return a server that gives users to jobs, if it can."""
    made = AgentServer(folder)
    made.config = replace(made.config, own_user=False, **changes)
    return made


@pytest.fixture
def server(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AgentServer]:
    """A server whose agent can give users to jobs."""
    attempts = place / "shared" / "attempts"
    problems = {}
    for python in (sys.executable, "/usr/bin/python3"):
        passage = passage_of_jobs(attempts, interpreter=python)
        problems[python] = trial(attempts, code_path=CODE_PATH, interpreter=python, passage=passage)
    python = next((python for python, problem in problems.items() if not problem), "")
    if not python:
        pytest.skip(f"JOBS OF USERS OF THEIR OWN ARE NOT TESTED: no Python here that other users may run: {problems}")
    monkeypatch.setattr(sys, "executable", python)
    made = made_in(place)
    made.start()
    yield made
    made.end()


def answers(server: AgentServer, text: str, **order: object) -> dict[str, object]:
    """Run a script that prints one line of JSON last; return it."""
    job = wanted(script(text), **{"queue_id": QUEUE, **order})
    server.send(job)
    report = server.wait_phase(job, "ended")
    assert report.end_cause == "completed", (report, server.log(job))
    found: dict[str, object] = json.loads(server.log(job).splitlines()[-1])
    return found


WHO = """
import getpass, json, os, resource
print(json.dumps({"name": getpass.getuser(), "home": os.environ["HOME"],
    "uid": os.getresuid(), "gid": os.getresgid(), "groups": os.getgroups(),
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
    assert found["name"] == "job"  # it has no account, and torch with Triton asks for a name
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
here = os.path.dirname(os.environ["CLUSTERWEB_REPORT_FILE"])
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
sys.stdout.write(f"from {run.step}\\n")  # at once: print writes each word by itself
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


SEES = """
import json, os
here = %r
print(json.dumps({"uid": os.getuid(), "names": sorted(os.listdir(here)), "cwd": os.getcwd(), "own": os.listdir(".")}))
"""


@pytest.mark.parametrize("warm", [0, 1])
def test_job_passes_a_closed_folder_and_sees_nothing_else_in_it(place: Path, warm: int) -> None:
    """Everything of the product may lie below a folder of root alone, as when it was unpacked in ``/root``."""
    if not may_mount():
        pytest.skip("CLOSED FOLDERS ARE NOT TESTED: root may mount nothing here")
    closed = place / "closed"
    closed.mkdir(mode=0o700)
    (closed / "secret").write_text("a key")
    (closed / "secret").chmod(0o644)
    server = made_in(closed, warm_processes=warm)
    server.start()
    try:
        job = wanted((sys.executable, "sees.py"), queue_id=QUEUE, files={"sees.py": SEES % str(closed)})
        if warm:
            server.send(wanted(script("pass"), queue_id=QUEUE))  # the next spare is for its user
            wait_for("a warm process", warm_ready)
        server.send(job)
        report = server.wait_phase(job, "ended")
        found = json.loads(server.log(job).splitlines()[-1])

        assert report.end_cause == "completed"
        assert server.mail.newest[1].isolation.split("+")[0] == "user"
        work = str(server.job_dir(job))
        assert found == {"uid": UID, "names": ["shared", "state"], "cwd": work, "own": ["sees.py"]}
        assert server.supervisor(job).pid  # outside, with all of the folder
        assert (closed / "secret").exists()
    finally:
        server.end()


def test_root_agent_that_can_give_no_users_takes_no_jobs(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job never runs as root; owner and admin read why."""
    monkeypatch.setattr("agents.loop.trial", lambda *_, **__: "nothing may be mounted")
    server = made_in(place)
    server.start()
    try:
        job = wanted(script("open('ran', 'w')"), queue_id=QUEUE)
        server.send(job)
        report = server.wait_phase(job, "ended")

        assert server.mail.newest[1].isolation == "refused"
        assert (report.end_cause, report.pid) == ("launch_failed", None)
        assert "takes no jobs: its agent runs as root" in report.end_detail
        assert "nothing may be mounted" in report.end_detail
    finally:
        server.end()


@pytest.mark.skipif(not abi(), reason="JOBS OF ROOT WITH GPUS ARE NOT TESTED: this kernel has no Landlock")
def test_confined_jobs_of_root_get_no_gpus(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA could not start in them; on CPU slots, or where nothing is confined, jobs run as root."""
    config = replace(AgentServer(place).config, confines=True)
    monkeypatch.setattr(nvml, "pynvml", FakeDriver(num_gpus=1))
    gpus, slots = find_probe(config), CpuSlots.find(config)
    of_gpus = profile_of(config, gpus, num_devices=1)

    assert of_gpus.isolation == "refused"
    assert "CUDA" in of_gpus.refusal
    assert not profile_of(config, slots, num_devices=2).refusal
    assert not profile_of(replace(config, confines=False), gpus, num_devices=1).refusal


def test_admin_can_have_jobs_run_as_root(place: Path) -> None:
    """Where the machine is theirs alone; the report says that nothing keeps jobs apart."""
    server = AgentServer(place)
    server.start()
    try:
        found = answers(server, "import json, os; print(json.dumps({'uid': os.getuid()}))")

        assert server.mail.newest[1].isolation.split("+")[0] == "none"
        assert found["uid"] == 0
    finally:
        server.end()


READS = """
import json
def read(path):
    try:
        return open(path).read()
    except OSError as error:
        return type(error).__name__
print(json.dumps({"all": read(%r), "one": read(%r)}))
"""


def test_folder_that_an_admin_opened_is_for_the_queues_whose_users_its_modes_let_in(place: Path) -> None:
    """It is opened to the jobs of all queues; what keeps it for one of them is the user of the queue."""
    paths = []
    for name, mode in (("all", 0o755), ("one", 0o700)):
        (place / name).mkdir(mode=mode)
        (place / name / "data").write_text(name)
        paths.append(str(place / name / "data"))
    os.chown(place / "one", UID, UID)
    server = made_in(place, confines=True, readable_dirs=(str(place / "all"), str(place / "one")))
    server.start()
    try:
        assert answers(server, READS % tuple(paths)) == {"all": "all", "one": "one"}
        assert answers(server, READS % tuple(paths), queue_id=QUEUE + 1) == {"all": "all", "one": "PermissionError"}
    finally:
        server.end()


TERMINAL = """
import json, os, subprocess
leader, follower = os.openpty()
os.write(follower, b"hello")
said = os.read(leader, 5).decode()
def trying(path):
    try:
        os.close(os.open(path, os.O_RDWR | os.O_NOCTTY))
        return "done"
    except OSError as error:
        return type(error).__name__
print(json.dumps({"said": said, "other": trying(%r)}))
"""


def test_job_with_a_user_has_terminals_of_its_own_alone(place: Path) -> None:
    """Confined or not, a terminal of another user stays closed."""
    leader, follower = os.openpty()
    server = made_in(place, confines=True)
    server.start()
    try:
        assert answers(server, TERMINAL % os.ttyname(follower)) == {"said": "hello", "other": "PermissionError"}
    finally:
        server.end()
        os.close(leader)
        os.close(follower)


def test_numbers_of_accounts_and_folders_of_others_are_not_used(place: Path) -> None:
    """An existing account is never a job's; a folder that another user made first is left alone."""
    (place / "taken").mkdir()

    assert not is_free(0)
    assert not is_free(65_534)
    assert own_folder(place / "own", UID)
    assert own_folder(place / "own", UID)
    assert not own_folder(place / "own", UID + 1)
    assert not own_folder(place / "taken", UID)
