"""What a job keeps that is asked to end: every process gets the signal, and its time to save. Real processes."""

import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agents.files.server_files import AttemptFiles
from agents.host.identity import send_signal
from agents.host.process import HostProcesses
from agents.protocol.desired_state import AttemptWanted
from agents.supervisor.stop import stop_all
from tests.support.agents.server import AgentServer, marked, wait_for, wanted

# Saves when it is asked to, which takes a while; it counts what it is asked by.
SAVES = """
import os, signal, sys, time
heard = []
for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2"):
    signal.signal(getattr(signal, name), lambda number, frame: heard.append(signal.Signals(number).name))
open("ready", "w"); print("ready", flush=True)
while not heard: time.sleep(0.02)
print("saving", flush=True)
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end: time.sleep(0.02)
place = os.path.join(os.environ["CLUSTERWEB_CHECKPOINT_DIR"], "own")
open(place + ".new", "w").write(" ".join(heard)); os.rename(place + ".new", place)
"""
PYTHON = f"{sys.executable} -S save.py"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[AgentServer]:
    """One server with a running agent; nothing of it is left behind."""
    server = AgentServer(tmp_path)
    server.start()
    yield server
    server.end()


def bash(text: str, **changes: object) -> AttemptWanted:
    """Return an order for ``bash run.sh``, with the script that saves beside it."""
    return wanted(("bash", "run.sh"), files={"run.sh": text, "save.py": SAVES}, **changes)


def is_logged(server: AgentServer, order: AttemptWanted, word: str) -> bool:
    """Return whether the job has written a line."""
    return word in server.log(order).splitlines()


def ready(server: AgentServer, *orders: AttemptWanted) -> None:
    """Start jobs and wait until they can save."""
    server.send(*orders)
    for order in orders:
        wait_for("its first line", lambda one=order: is_logged(server, one, "ready"))  # type: ignore[misc]


def own(server: AgentServer, order: AttemptWanted) -> str | None:
    """Return what the job saved: the signals that it got."""
    path = server.directory(order) / "checkpoints" / "own"
    return path.read_text() if path.exists() else None


@pytest.mark.parametrize("again", range(2))
def test_child_of_a_shell_has_the_grace_to_save(server: AgentServer, again: int) -> None:
    """The shell dies of the signal at once, also one in another session; the child saves all the same."""
    orders = [
        bash(f"{PYTHON} 2\necho not reached\n", grace_s=600.0),
        bash(f"setsid {PYTHON} 2 &\nwait\n", grace_s=600.0, gpu_indexes=(1,)),
    ]
    ready(server, *orders)
    server.send(*(replace(order, wanted="preempt") for order in orders))
    ended = [server.wait_phase(order, "ended") for order in orders]

    assert [own(server, order) for order in orders] == ["SIGTERM", "SIGTERM"]
    assert [report.end_cause for report in ended] == ["preempted", "preempted"]
    assert server.processes() == []


def test_no_save_is_lost_of_twenty_that_take_ten_seconds(server: AgentServer) -> None:
    """All at once, as when a server is drained."""
    texts = (f"{PYTHON} 10\n", f"{PYTHON} 10 &\nwait\n", f"setsid {PYTHON} 10\n", f"({PYTHON} 10; exit 3)\n")
    orders = [bash(texts[number % 4], grace_s=600.0, gpu_indexes=(number % 2,)) for number in range(20)]
    ready(server, *orders)
    server.send(*(replace(order, wanted="preempt") for order in orders))
    ended = [server.wait_phase(order, "ended") for order in orders]

    assert [own(server, order) for order in orders] == ["SIGTERM"] * 20
    assert {report.end_cause for report in ended} == {"preempted"}


def test_job_that_saves_and_ends_well_was_preempted(server: AgentServer) -> None:
    """Exit code 0 on the signal is no completion; the same job left alone completes."""
    asked, alone = bash(f"exec {PYTHON} 0\n"), bash("exit 0\n", gpu_indexes=(1,))
    ready(server, asked)
    server.send(replace(asked, wanted="preempt"), alone)
    ended = [server.wait_phase(order, "ended") for order in (asked, alone)]

    assert [(report.end_cause, report.exit_code) for report in ended] == [("preempted", 0), ("completed", 0)]


def test_grace_ends_whoever_is_left(server: AgentServer) -> None:
    """The command is long gone when its child is killed."""
    order = bash(f"{PYTHON} 600\n", grace_s=1.5)
    ready(server, order)
    server.send(replace(order, wanted="preempt"))
    report = server.wait_phase(order, "ended")

    assert (report.end_cause, report.exit_signal) == ("preempted", signal.SIGTERM)
    assert own(server, order) is None
    assert marked(order.attempt_id) == []


def test_command_that_ends_by_itself_lets_its_children_finish(server: AgentServer) -> None:
    """They get the signal, and time; what the job is called follows from the command."""
    order = bash(f"{PYTHON} 1 &\nuntil [ -e ready ]; do sleep 0.05; done\nexit 3\n")
    server.send(order)
    report = server.wait_phase(order, "ended")

    assert (report.end_cause, report.exit_code) == ("exit_code", 3)
    assert own(server, order) == "SIGTERM"
    assert marked(order.attempt_id) == []


def test_every_process_gets_the_chosen_signal_once(server: AgentServer) -> None:
    """Many programs take a second one for "at once"."""
    orders = [
        bash(f"trap : USR1\n{PYTHON} 1\n", stop_signal="USR1"),
        bash(f"exec {PYTHON} 1\n", stop_signal="INT", gpu_indexes=(1,)),
    ]
    ready(server, *orders)
    server.send(*(replace(order, wanted="preempt") for order in orders))
    ended = [server.wait_phase(order, "ended") for order in orders]

    assert [own(server, order) for order in orders] == ["SIGUSR1", "SIGINT"]
    assert [report.end_cause for report in ended] == ["preempted", "preempted"]


def test_longest_duration_warns_before_it_ends_the_job(server: AgentServer) -> None:
    """By the same signal, early enough to save."""
    order = bash(f"{PYTHON} 1\n", max_duration_s=600.0, warn_before_s=597.0, stop_signal="USR2")
    server.send(order)
    report = server.wait_phase(order, "ended")

    assert report.end_cause == "time_limit"
    assert own(server, order) == "SIGUSR2"


def test_killed_supervisor_leaves_nothing_while_a_job_saves(server: AgentServer) -> None:
    """Its command is gone and its child still saves: that dies too, before the attempt is said to have ended."""
    order = bash(f"{PYTHON} 600\n", grace_s=600.0)
    ready(server, order)
    server.send(replace(order, wanted="preempt"))
    wait_for("saving", lambda: is_logged(server, order, "saving"))
    send_signal(server.supervisor(order), signal.SIGKILL)
    report = server.wait_phase(order, "ended")

    assert report.end_cause == "supervisor_lost"
    assert marked(order.attempt_id) == []


def test_stop_of_the_product_lets_a_child_save(server: AgentServer) -> None:
    """Ctrl-C: the time that there is belongs to the job that has no runtime as well."""
    order = bash(f"{PYTHON} 2\n", grace_s=600.0)
    ready(server, order)
    server.stop()
    files = AttemptFiles(attempts_dir=server.config.attempts_dir, state_dir=server.config.state_dir)
    stopped, killed = stop_all(files, HostProcesses(), timeout_s=60.0)
    files.close()

    assert (stopped, killed) == ([order.attempt_id], [])
    assert own(server, order) == "SIGTERM"
