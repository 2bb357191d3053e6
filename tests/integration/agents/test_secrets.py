"""Secrets on a real server: in the process that was meant, and in no file, log or report beside it."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agents.core.records import LAUNCH_FILE, Launch, encode
from agents.files.server_files import AttemptFiles
from agents.host.launch_names import CODE_PATH
from agents.protocol.desired_state import AttemptWanted
from agents.protocol.job_secret import JobSecret
from agents.protocol.sealing import secrets_seal
from tests.support.agents.server import KEY, SERVER_ID, AgentServer, script, wait_for, wanted

VALUE = "canary-0123456789-abcdefghij"
DIGEST = hashlib.sha256(VALUE.encode()).hexdigest()
# Shows that the process has the value, and leaks it in every way that a script does by mistake.
LEAKS = """
import base64, hashlib, os, sys, time, urllib.parse
value = os.environ["WANDB_API_KEY"]
print("has", hashlib.sha256(value.encode()).hexdigest(), flush=True)
print("plain", value, flush=True)
for letter in value: sys.stdout.write(letter); sys.stdout.flush(); time.sleep(0.002)
print()
print("basic", base64.b64encode(f"api:{value}".encode()).decode())
print("url", "https://x/?key=" + urllib.parse.quote(value))
open(os.environ["CLUSTERWEB_REPORT_FILE"], "a").write('{"event": "' + value + '"}\\n')
"""
FAILS = LEAKS + "raise RuntimeError('login failed for ' + value)"


def secret_order(command: tuple[str, ...], **changes: object) -> AttemptWanted:
    """Return an order whose process is given the value."""
    order = wanted(command, **changes)
    return sealed(order)


def sealed(order: AttemptWanted, value: str = VALUE) -> AttemptWanted:
    secrets = [JobSecret(variable="WANDB_API_KEY", name="wandb", value=value)]
    text = secrets_seal(key=KEY, server=SERVER_ID, attempt_id=order.attempt_id, secrets=secrets)
    return replace(order, sealed=text)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[AgentServer]:
    """One server with a running agent; nothing of it is left behind."""
    server = AgentServer(tmp_path)
    server.start()
    yield server
    server.end()


def files_with(value: str, *roots: Path) -> list[str]:
    """Return the files below the roots that hold a text."""
    return [
        str(path)
        for root in roots
        for path in root.rglob("*")
        if path.is_file() and not path.is_symlink() and value.encode() in path.read_bytes()
    ]


@pytest.mark.parametrize("waits", [True, False], ids=["spare", "started anew"])
def test_process_has_the_value_and_no_file_does(server: AgentServer, tmp_path: Path, waits: bool) -> None:
    """By a supervisor that waited, and by one that is started for it; the log shows the secret's name."""
    if waits:
        wait_for("a spare", lambda: server.loop is not None and server.loop._processes._spares)
    order = secret_order(script(LEAKS))
    server.send(order)
    report = server.wait_phase(order, "ended")
    log = server.log(order)

    assert report.end_cause == "completed", (report, log)
    assert f"has {DIGEST}" in log
    assert "plain [wandb]\n[wandb]\nbasic " in log
    assert log.count("[wandb]") >= 4
    assert VALUE not in log
    written_by_the_job = str(server.directory(order) / "reports.jsonl")
    assert files_with(VALUE, tmp_path) == [written_by_the_job]
    assert order.sealed in (server.directory(order) / LAUNCH_FILE).read_text()


def test_large_secrets_do_not_go_through_the_pipe_of_a_spare(server: AgentServer, tmp_path: Path) -> None:
    """More than a pipe takes at once must not keep the agent waiting."""
    value = "x1Y2" * 30_000
    order = sealed(wanted(script("import hashlib,os;v=os.environ['WANDB_API_KEY'];print(len(v), v[:4])")), value)
    server.send(order)
    report = server.wait_phase(order, "ended")

    assert report.end_cause == "completed", server.log(order)
    assert server.log(order).startswith("120000 ")
    assert files_with(value, tmp_path) == []


def test_line_of_a_failure_is_reported_without_the_value(server: AgentServer) -> None:
    """What the scheduler keeps, shows and sends to webhooks comes out of the masked log."""
    order = secret_order(script(FAILS))
    server.send(order)
    report = server.wait_phase(order, "ended")

    assert report.end_cause == "exit_code"
    assert "login failed for [wandb]" in report.failure_line
    assert VALUE not in f"{server.mail.reports}"


def test_agent_that_starts_again_adopts_the_job_without_its_secrets(server: AgentServer, tmp_path: Path) -> None:
    """The supervisor keeps what it was handed; masking goes on."""
    go = tmp_path / "go"
    text = (
        "import os, time\n"
        f"print('begun', flush=True)\nwhile not os.path.exists({str(go)!r}): time.sleep(0.02)\n"
        "print('late', os.environ['WANDB_API_KEY'])"
    )
    order = secret_order(script(text))
    server.send(order)
    wait_for("output", lambda: "begun" in server.log(order))
    server.stop()
    server.start()
    server.send(order)
    go.touch()
    report = server.wait_phase(order, "ended")

    assert report.end_cause == "completed"
    assert "late [wandb]" in server.log(order)


def test_secrets_that_do_not_open_start_nothing_and_say_why(server: AgentServer) -> None:
    """Sealed for another attempt: the launch fails as one of the server's, and is tried again elsewhere."""
    other = secret_order(script("print('never')"))
    order = replace(wanted(script("print('never')")), sealed=other.sealed)
    server.send(order)
    report = server.wait_phase(order, "ended")

    assert report.end_cause == "launch_failed"
    assert "secrets could not be opened" in report.end_detail
    assert server.log(order) == ""


@pytest.mark.parametrize("told", [b"", b'[["WANDB_API_KEY", "wan'], ids=["nothing", "half"])
def test_supervisor_without_its_secrets_ends_cleanly(server: AgentServer, told: bytes) -> None:
    """The agent was killed between starting it and handing over: no process, a state that says so, no leftovers."""
    order = secret_order(script("print('never')"))
    launched = _launch_of(server, order)
    files = AttemptFiles(attempts_dir=server.config.attempts_dir, state_dir=server.config.state_dir)
    assert files.create(order.attempt_id, LAUNCH_FILE, encode(launched))
    files.close()
    done = subprocess.run(
        [sys.executable, "-S", "-P", "-m", "agents.supervisor.supervise", str(server.directory(order))],
        env={"PYTHONPATH": CODE_PATH, "PATH": os.defpath},
        input=told,
        capture_output=True,
        timeout=240,
    )
    state = server.state(order)

    assert done.returncode == 0
    assert state is not None
    assert (state.report.phase, state.report.end_cause) == ("ended", "launch_failed")
    assert "had handed the job its secrets" in state.report.end_detail
    assert server.log(order) == ""
    # What the scheduler hears once the agent, which has lost its memory of it, is told to run it.
    server.send(order)
    assert server.wait_phase(order, "ended").end_cause == "launch_failed"


def test_agent_killed_between_receiving_and_handing_over_starts_nothing(tmp_path: Path) -> None:
    """kill -9 after the launch is on disk: the next agent reports it, and the scheduler starts it anew."""
    server = AgentServer(tmp_path)
    server.start()
    try:
        order = secret_order(script("print('never')"))
        server.send(order)
        wait_for("launch", lambda: (server.directory(order) / LAUNCH_FILE).exists())
        launch = Launch.parse((server.directory(order) / LAUNCH_FILE).read_bytes())
    finally:
        server.end()
    fresh = AgentServer(tmp_path / "again")
    files = AttemptFiles(attempts_dir=fresh.config.attempts_dir, state_dir=fresh.config.state_dir)
    files.create(order.attempt_id, LAUNCH_FILE, encode(launch))
    files.close()
    fresh.start()
    try:
        fresh.ever.add(order.attempt_id)
        report = fresh.wait_phase(order, "ended")
    finally:
        fresh.end()

    assert report.end_cause == "launch_failed"
    assert "restarted before it could start" in report.end_detail


def _launch_of(server: AgentServer, order: AttemptWanted) -> Launch:
    """Return the launch that an agent would write for an order."""
    probe = wanted(script("pass"))
    server.send(probe)
    server.wait_phase(probe, "ended")
    launched = Launch.parse((server.directory(probe) / LAUNCH_FILE).read_bytes())
    return replace(launched, order=order)
