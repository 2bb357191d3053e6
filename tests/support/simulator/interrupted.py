"""Presses Ctrl-C at many moments of a comparison in processes: ``python -m tests.support.simulator.interrupted``.

Each moment has a comparison of its own, in a fork of this process, so that Django is loaded once. Prints JSON: for each
moment the exit status, what the user read, whether a process was left, and the seconds from the press to the end.
"""

import contextlib
import json
import math
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

# More runs than can end before Ctrl-C comes, on any machine.
COMMAND = (
    *("manage.py", "simulate", "generate:philly?jobs=2000&load=1.1", "--servers", "20"),
    *("--compare", "srtf+tune,las+tune", "--seeds", "50", "--workers", "2"),
)
# Around each of the two forks; and after so many lines of code that starts processes, or that waits for them.
LOOKED_AT = ("concurrent.", "multiprocessing.", "threading", "selectors", "scheduler.simulator.study.compare")
FORKS = [(when, number) for number in (1, 2) for when in ("before fork", "after fork")]
STARTING = [("starting", number) for number in sorted(random.Random(7).sample(range(1, 600), 8))]
WAITING = [("waiting", number) for number in sorted(random.Random(8).sample(range(1, 600), 24))]
MOMENTS = FORKS + STARTING + WAITING
GONE_WITHIN_S = 60.0


def main() -> None:
    """Try every moment, one after the other."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "clusterweb.settings")
    import django

    django.setup()
    from scheduler.management.commands import simulate  # noqa: F401  (loaded once, before the forks)

    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps([[*moment, *_pressed(moment, Path(folder) / "told")] for moment in MOMENTS]))


def _pressed(moment: tuple[str, int], told: Path) -> tuple[int, str, bool, float]:
    reads, writes = os.pipe()
    pid = os.fork()
    if pid == 0:
        _compare(moment, told, writes)
    os.close(writes)
    end_s = time.monotonic() + GONE_WITHIN_S
    while (ended := os.waitpid(pid, os.WNOHANG)) == (0, 0):
        if time.monotonic() > end_s:
            os.killpg(pid, signal.SIGKILL)  # it hangs: the status tells
        time.sleep(0.01)
    ended_s = time.monotonic()
    status = os.waitstatus_to_exitcode(ended[1])
    return status, told.read_text(encoding="utf-8"), _is_left(pid), ended_s - _pressed_at_s(reads)


def _pressed_at_s(reads: int) -> float:
    """Return when the key was pressed; minus infinity where it was not."""
    os.set_blocking(reads, False)  # a worker that is left holds the other end
    try:
        return float(os.read(reads, 99) or "-inf")
    except BlockingIOError:
        return -math.inf
    finally:
        os.close(reads)


def _is_left(group: int) -> bool:
    """Return whether a process of the group outlives it."""
    end_s = time.monotonic() + GONE_WITHIN_S
    while time.monotonic() < end_s:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return False
        time.sleep(0.01)
    return True


def _compare(moment: tuple[str, int], told: Path, pressed: int) -> None:
    """Be the command, in a group of processes of its own as at a terminal, and end; tell ``pressed`` of the press."""
    from django.core.management import execute_from_command_line

    from scheduler.simulator.study import compare

    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with told.open("wb") as stderr, Path(os.devnull).open("wb") as stdout:
        os.dup2(stderr.fileno(), 2)
        os.dup2(stdout.fileno(), 1)
    in_processes = compare._in_processes

    def watched(*arguments: object) -> object:
        with _pressing(*moment, pressed):
            return in_processes(*arguments)  # type: ignore[arg-type]  # handed on as they came

    compare._in_processes = watched  # type: ignore[assignment]  # see above
    status: object = 0
    try:
        execute_from_command_line([*COMMAND])
    except SystemExit as ended:
        status = ended.code
    except BaseException as error:
        print(repr(error), file=sys.stderr)
        status = 99
    sys.stderr.flush()
    os._exit(status if isinstance(status, int) else 98)


@contextlib.contextmanager
def _pressing(kind: str, number: int, pressed: int) -> Iterator[None]:
    """Press Ctrl-C at that moment of the block, once, and write when."""
    seen, begun = 0, kind != "waiting"

    def count() -> None:
        nonlocal seen
        seen += 1
        if seen == number:
            sys.settrace(None)
            os.write(pressed, str(time.monotonic()).encode())  # one clock for all processes
            os.killpg(0, signal.SIGINT)

    def line(frame: FrameType, event: str, _argument: object) -> Any:  # a function like itself
        nonlocal begun
        begun = begun or (frame.f_code.co_name == "wait" and _is_ours(frame.f_back))
        if begun and event == "line" and frame.f_globals["__name__"].startswith(LOOKED_AT):
            count()
        return line

    if kind == "before fork":
        os.register_at_fork(before=count)
    elif kind == "after fork":
        os.register_at_fork(after_in_parent=count)
    else:
        os.register_at_fork(after_in_child=partial(sys.settrace, None))
        sys.settrace(line)
    try:
        yield
    finally:
        sys.settrace(None)


def _is_ours(frame: FrameType | None) -> bool:
    return frame is not None and frame.f_globals["__name__"] == LOOKED_AT[-1]


if __name__ == "__main__":
    main()
