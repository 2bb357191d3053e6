"""The keeper restarts its child, and never outlives its parent."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from clusterweb.config.env import BASE_DIR
from tests.support.e2e.stack import wait_for

pytestmark = pytest.mark.usefixtures("processes")

WRITES_PID = "import os, sys, time; open(sys.argv[1], 'a').write(f'{os.getpid()}\\n'); time.sleep(60)"


def pids(path: Path) -> list[int]:
    """Return the process ids that the kept command has written so far."""
    return [int(line) for line in path.read_text().splitlines()] if path.exists() else []


def keep(path: Path, **options: object) -> "subprocess.Popen[bytes]":
    """Start a keeper of a command that writes its pid."""
    command = [sys.executable, "-m", "clusterweb.keep", "--", sys.executable, "-c", WRITES_PID, str(path)]
    return subprocess.Popen(command, cwd=BASE_DIR, stderr=subprocess.DEVNULL, **options)  # type: ignore[call-overload,no-any-return]  # options of Popen


def test_killed_command_is_started_again(tmp_path: Path) -> None:
    """A crash of one process is not the end of the product."""
    path = tmp_path / "pids"
    with keep(path) as keeper:
        wait_for("first start", lambda: len(pids(path)) == 1)
        os.kill(pids(path)[0], signal.SIGKILL)
        wait_for("second start", lambda: len(pids(path)) == 2)
        keeper.terminate()

        assert keeper.wait(timeout=300) == 0
    assert not any(psutil.pid_exists(pid) for pid in pids(path))


def test_command_ends_when_the_starter_dies(tmp_path: Path) -> None:
    """A starter that is killed leaves nothing running."""
    path = tmp_path / "pids"
    starter = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import subprocess, sys; subprocess.Popen(sys.argv[1:]).wait()",
            *[sys.executable, "-m", "clusterweb.keep", "--", sys.executable, "-c", WRITES_PID, str(path)],
        ],
        cwd=BASE_DIR,
    )
    wait_for("first start", lambda: len(pids(path)) == 1)
    command = psutil.Process(pids(path)[0])
    starter.kill()
    starter.wait()

    wait_for("the command ends", lambda: not command.is_running() or command.status() == psutil.STATUS_ZOMBIE)


def test_command_that_cannot_use_its_configuration_is_started_once() -> None:
    """It has said in one line what is wrong, and would say it for ever."""
    ends = f"import os, sys; sys.stderr.write('FOLDER cannot be used.\\n'); sys.exit({os.EX_CONFIG})"
    command = [sys.executable, "-m", "clusterweb.keep", "--", sys.executable, "-c", ends]
    done = subprocess.run(command, cwd=BASE_DIR, capture_output=True, text=True, timeout=300)

    assert (done.returncode, done.stderr) == (os.EX_CONFIG, "FOLDER cannot be used.\n")
