"""``manage.py simulate`` when it is stopped before its end, and when it goes on."""

import json
import os
import random
import signal
import statistics
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from django.core.management import CommandError

from tests.support.e2e.stack import wait_for
from tests.support.live.simulations import BUSY, ROOT, figures, simulate, stable
from tests.support.simulator.interrupted import COMMAND, MOMENTS

pytestmark = pytest.mark.usefixtures("processes")
# What does not come within this long never does, however busy the machine.
LONG_S = 300.0
# From Ctrl-C to the end of the command.
MEDIAN_S = 2.0


def test_a_killed_replay_goes_on_where_it_was(tmp_path: Path) -> None:
    """Killed after its state was written, continued in another process: all figures of a run in one piece."""
    trace = ("generate:philly?jobs=4000&load=1.1", "--policy", "srtf", "--servers", "40", "--round-s", "60")
    state = tmp_path / "state"
    process = subprocess.Popen(
        [
            *(sys.executable, ROOT / "manage.py", "simulate", *trace, "--json", "f.json"),
            *("--checkpoint", str(state), "--save-every-s", "0.05"),
        ],
        cwd=tmp_path,
        env={**os.environ, "VAR_DIR": str(tmp_path / "var")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_for("a state", state.exists)
    process.kill()
    process.wait(timeout=LONG_S)
    assert not (tmp_path / "f.json").exists()

    assert stable(figures(*trace, "--continue", str(state))) == stable(figures(*trace))
    with pytest.raises(CommandError, match=r"--continue: .*a replay with another workload") as caught:
        figures(*trace, "--seed", "1", "--continue", str(state))
    assert caught.value.returncode == 2


def test_two_halves_of_a_replay_are_the_whole(tmp_path: Path) -> None:
    """Up to a second of the trace with --until, then on."""
    state = str(tmp_path / "state")
    with pytest.raises(CommandError) as caught:
        simulate(*BUSY, "--policy", "las", "--until", "7200", "--checkpoint", state)
    continued = figures(*BUSY, "--policy", "las", "--continue", state)

    assert caught.value.returncode == 1
    assert stable(continued) == stable(figures(*BUSY, "--policy", "las"))


def comparing(folder: Path) -> tuple[subprocess.Popen[str], list[psutil.Process]]:
    """Start a comparison of more runs than can end meanwhile; return it with its two workers."""
    process = subprocess.Popen(
        [sys.executable, ROOT / COMMAND[0], *COMMAND[1:], "--json", "f.json"],
        cwd=folder,
        env={**os.environ, "VAR_DIR": str(folder / "state")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    wait_for("both workers", lambda: len(psutil.Process(process.pid).children()) == 2)
    return process, psutil.Process(process.pid).children()


def test_control_c_ends_it_with_a_word(tmp_path: Path) -> None:
    """Parent and workers end at once; no traceback, no file."""
    process, workers = comparing(tmp_path)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=LONG_S)

    assert (process.returncode, errors) == (130, "CommandError: Stopped. Nothing was written.\n")
    assert not (tmp_path / "f.json").exists()
    assert psutil.wait_procs(workers, timeout=LONG_S)[1] == []


def test_control_c_at_any_moment_ends_it_with_a_word(tmp_path: Path) -> None:
    """Before, while and after the workers are forked, and while they are waited for: always the one line, soon, and no
    process is left.

    By the median of wall times, which is 0.02 s on two cores at a load of 8: a hundred times as long is no matter of a
    busy machine, and what waits for a run to end, or for a time to be over, takes longer.
    """
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.simulator.interrupted"],
        cwd=ROOT,
        env={**os.environ, "VAR_DIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        check=True,
    )
    moments = json.loads(done.stdout)

    assert len(moments) == len(MOMENTS)
    for *moment, status, told, is_left, _ in moments:
        assert (moment, status, told, is_left) == (moment, 130, "CommandError: Stopped. Nothing was written.\n", False)
    assert statistics.median(took_s for *_, took_s in moments) <= MEDIAN_S


@pytest.mark.parametrize("moment", sorted(random.Random(9).sample(range(50, 1_000_000), 12)))
def test_control_c_while_it_starts_prints_no_traceback(moment: int, tmp_path: Path) -> None:
    """Among imports, settings, arguments and the first of its work."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.simulator.pressed_early", str(moment), *COMMAND[1:]],
        cwd=ROOT,
        env={**os.environ, "VAR_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=LONG_S,
    )

    assert done.returncode == 130
    assert done.stderr in ("", "CommandError: Stopped. Nothing was written.\n")
    assert done.stdout == ""


def test_workers_end_when_the_command_is_killed(tmp_path: Path) -> None:
    """Even without a chance to say so: no process is left computing."""
    process, workers = comparing(tmp_path)
    process.kill()
    process.communicate(timeout=LONG_S)

    assert psutil.wait_procs(workers, timeout=LONG_S)[1] == []
