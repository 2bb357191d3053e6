"""Presses Ctrl-C at many moments of a comparison in processes: ``python -m tests.support.simulator.interrupted``.

Each moment has a comparison of its own, in a fork of this process, so that Django is loaded once. Prints JSON: for each
moment the exit status, what the user read, and whether a process was left.
"""

import contextlib
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

# More runs than can end before Ctrl-C comes, on any machine.
COMMAND = (
    *("manage.py", "simulate", "generate:philly?jobs=2000&load=1.1", "--servers", "20"),
    *("--compare", "srtf+tune,las+tune", "--seeds", "50", "--workers", "2"),
)
# Around each of the two forks; and this many calls of functions after the first process was thought of.
FORKS = [(when, number) for number in (1, 2) for when in ("before fork", "after fork")]
CALLS = [("calls", number) for number in (1, 150, 300, 600, 900, 1200, 1800, 2400, 3000, 3600, 4200)]
GONE_WITHIN_S = 60.0


def main() -> None:
    """Try every moment, one after the other."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "clusterweb.settings")
    import django

    django.setup()
    from scheduler.management.commands import simulate  # noqa: F401  (loaded once, before the forks)

    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps([[*moment, *_pressed(moment, Path(folder) / "told")] for moment in FORKS + CALLS]))


def _pressed(moment: tuple[str, int], told: Path) -> tuple[int, str, bool]:
    pid = os.fork()
    if pid == 0:
        _compare(moment, told)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return status, told.read_text(encoding="utf-8"), _is_left(pid)


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


def _compare(moment: tuple[str, int], told: Path) -> None:
    """Be the command, in a group of processes of its own as at a terminal, and end."""
    from django.core.management import execute_from_command_line

    from scheduler.simulator.study import compare

    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with told.open("wb") as stderr, Path(os.devnull).open("wb") as stdout:
        os.dup2(stderr.fileno(), 2)
        os.dup2(stdout.fileno(), 1)
    in_processes = compare._in_processes

    def watched(*arguments: object) -> object:
        with _pressing(*moment):
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
def _pressing(kind: str, number: int) -> Iterator[None]:
    """Press Ctrl-C at that moment of the block, once."""
    mine, seen = os.getpid(), 0

    def count() -> None:
        nonlocal seen
        seen += 1
        if seen == number:
            sys.setprofile(None)
            os.killpg(0, signal.SIGINT)

    def called(_frame: FrameType, _event: str, _argument: object) -> None:
        if os.getpid() == mine:
            count()

    if kind == "before fork":
        os.register_at_fork(before=count)
    elif kind == "after fork":
        os.register_at_fork(after_in_parent=count)
    else:
        sys.setprofile(called)
    try:
        yield
    finally:
        sys.setprofile(None)


if __name__ == "__main__":
    main()
