"""Supervise one attempt: ``python -m agents.supervisor.supervise <attempt directory>``.

A process of its own, with one thread and the standard library only, so that it starts fast and outlives the agent.
"""

import os
import sys

from agents.core.records import LAUNCH_FILE, Launch
from agents.files.attempt_dir import AttemptDir
from agents.host.identity import identity_of
from agents.host.launch_names import CODE_PATH, SPARE, WARM
from agents.supervisor.child import StartFailed
from agents.supervisor.supervisor import Supervisor
from agents.supervisor.warm_child import WarmChild

OWN_LOG = "supervisor.log"


def _attempt_path(arguments: list[str]) -> str:
    """Return the attempt's directory; a spare supervisor waits for it. Empty when none ever comes."""
    if _is_spare(arguments):
        return os.fsdecode(os.read(0, 4096).rstrip(b"\n"))  # one write of the agent, or the end when it is gone
    return arguments[0] if len(arguments) == 1 else ""


def _is_spare(arguments: list[str]) -> bool:
    return len(arguments) == 1 and (arguments[0] == SPARE or arguments[0].startswith(WARM))


def _warm_child(arguments: list[str]) -> WarmChild | None:
    """Start a training process ahead of time, if asked to; without one the job starts in the usual way."""
    if not _is_spare(arguments) or arguments[0] == SPARE:
        return None
    uid = arguments[0].removeprefix(WARM)
    try:
        return WarmChild(interpreter=sys.executable, code_path=CODE_PATH, uid=int(uid) if uid else None)
    except (StartFailed, OSError):
        return None


def _settle(directory: AttemptDir) -> None:
    """Replace the agent's standard streams by a log file in the attempt's directory."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
    output = os.open(OWN_LOG, flags, 0o600, dir_fd=directory.fd)
    null = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((null, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    os.close(output)
    os.close(null)
    os.chdir("/")


def main(arguments: list[str]) -> int:
    """Supervise the attempt whose directory is named."""
    os.umask(0o077)
    warm = _warm_child(arguments)
    path = _attempt_path(arguments)
    if not path:
        return 0 if _is_spare(arguments) else 2
    directory = AttemptDir(path)
    _settle(directory)
    launch = Launch.parse(directory.read(LAUNCH_FILE) or b"")
    me = identity_of(os.getpid())
    assert me is not None
    return Supervisor(directory, launch, me, warm=warm).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
