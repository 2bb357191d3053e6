"""The agent with real processes: launch, log, telemetry, end."""

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.files.server_files import AttemptFiles
from tests.support.agents.server import AgentServer, script, wait_for, wanted


@pytest.fixture
def server(tmp_path: Path) -> Iterator[AgentServer]:
    """One server with a running agent; nothing of it is left behind."""
    server = AgentServer(tmp_path)
    server.start()
    yield server
    server.end()


def test_job_runs_to_completion(server: AgentServer) -> None:
    """A wanted attempt is launched, its output kept, its end reported with exit code 0."""
    order = wanted(script("print('hello from the job')"))
    server.send(order)

    report = server.wait_phase(order, "ended")

    assert (report.end_cause, report.exit_code, report.exit_signal) == ("completed", 0, None)
    assert server.log(order) == "hello from the job\n"
    assert report.log_bytes == len("hello from the job\n")


@pytest.mark.parametrize("hangs", ["write_own", "create"])
def test_server_is_heard_while_its_disk_hangs(server: AgentServer, monkeypatch: pytest.MonkeyPatch, hangs: str) -> None:
    """A write that does not return keeps launches waiting, and no report; when it returns all goes on."""
    is_back, write = threading.Event(), getattr(AttemptFiles, hangs)

    def hang(*arguments: object) -> object:
        is_back.wait(300)
        return write(*arguments)

    monkeypatch.setattr(AttemptFiles, hangs, hang)
    order, before = wanted(script("print('hello')")), len(server.mail.reports)
    server.send(order)
    wait_for("reports", lambda: len(server.mail.reports) >= before + 3)
    report = server.report(order)
    is_back.set()

    assert report is None or report.phase == "starting"
    assert server.wait_phase(order, "ended").end_cause == "completed"


def test_ended_attempt_is_reported_until_nobody_names_it(server: AgentServer) -> None:
    """The end of an attempt cannot get lost, and does not stay for ever."""
    order = wanted(script("pass"))
    server.send(order)
    server.wait_phase(order, "ended")
    server.renew()
    before = len(server.mail.reports)
    wait_for("another report", lambda: len(server.mail.reports) > before + 1)

    still_there = server.report(order)
    server.send()
    wait_for("forgotten", lambda: server.report(order) is None)

    assert still_there is not None
    assert still_there.phase == "ended"


def test_job_gets_what_was_promised_and_nothing_of_ours(server: AgentServer) -> None:
    """Environment, files, working directory, cores, limits."""
    text = (
        "import json,os,resource;print(json.dumps({'env':dict(os.environ),'cwd':os.getcwd(),'umask':os.umask(0),"
        "'cores':sorted(os.sched_getaffinity(0)),'sid':os.getsid(0)==os.getpid(),'file':open('data.txt').read(),"
        "'core':resource.getrlimit(resource.RLIMIT_CORE)[0],"
        "'privs':[l for l in open('/proc/self/status') if l.startswith('NoNewPrivs')][0].split()[1],"
        "'fds':sorted(int(n) for n in os.listdir('/proc/self/fd'))}))"
    )
    env = {"SEED": "7", "OMP_NUM_THREADS": "9", "CLUSTERWEB_ARRAY_INDEX": "3", "CLUSTERWEB_RESUME_FILE": "/x"}
    order = wanted(script(text), env=env, files={"data.txt": "some data"})
    os.environ["SECRET_OF_THE_AGENT"] = "x"
    try:
        server.send(order)
        server.wait_phase(order, "ended")
    finally:
        del os.environ["SECRET_OF_THE_AGENT"]
    said = json.loads(server.log(order))
    directory = server.directory(order)

    assert said["cwd"] == said["env"]["CLUSTERWEB_JOB_DIR"] == str(server.job_dir(order))
    assert said["env"]["HOME"] == str(server.job_dir(order).with_name("home"))
    assert said["env"]["CLUSTERWEB_SCRATCH_DIR"] == str(server.config.state_dir / "scratch" / order.attempt_id)
    assert said["file"] == "some data"
    assert said["env"]["SEED"] == "7"
    assert said["env"]["CLUSTERWEB_ARRAY_INDEX"] == "3"
    assert said["env"]["OMP_NUM_THREADS"] == "9"
    assert said["env"]["CUDA_VISIBLE_DEVICES"] == ""
    assert said["env"]["CLUSTERWEB_ATTEMPT_ID"] == order.attempt_id
    assert said["env"]["CLUSTERWEB_REPORT_FILE"] == str(directory / "reports.jsonl")
    assert "CLUSTERWEB_RESUME_FILE" not in said["env"]
    assert "SECRET_OF_THE_AGENT" not in said["env"]
    assert said["cores"] == [server.config.cpu_ids[0]]
    assert (said["umask"], said["core"], said["privs"], said["sid"]) == (0o077, 0, "1", True)
    assert said["fds"] == [0, 1, 2, 3]  # 3 is the directory being listed
