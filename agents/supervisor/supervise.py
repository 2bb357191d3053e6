"""Supervise one attempt: ``python -m agents.supervisor.supervise <attempt directory>``.

A process of its own, with one thread and the standard library only, so that it starts fast and outlives the agent.
"""

import os
import sys
from dataclasses import replace

from agents.core.records import LAUNCH_FILE, STATE_FILE, Launch, encode, ended_unsupervised
from agents.files.attempt_dir import AttemptDir
from agents.files.masking import Masker
from agents.host.identity import identity_of
from agents.host.launch_names import CODE_PATH, SPARE, WARM
from agents.protocol.job_secret import JobSecret, secrets_read
from agents.supervisor.child import StartFailed
from agents.supervisor.supervisor import Supervisor
from agents.supervisor.warm_child import WarmChild

OWN_LOG = "supervisor.log"
NOT_HANDED = "The agent ended before it had handed the job its secrets."


def _told(arguments: list[str]) -> tuple[str, bytes]:
    """Return the attempt's directory and what else the agent hands over; a spare supervisor waits for both.

    The directory is empty when none ever comes.
    """
    if _is_spare(arguments):
        path, _, handed = _all_of_input().partition(b"\n")
        return os.fsdecode(path), handed
    return (arguments[0] if len(arguments) == 1 else ""), b""


def _all_of_input() -> bytes:
    """Return standard input to its end, which comes when the agent has told all, or is gone."""
    with open(0, "rb", closefd=False) as file:
        return file.read()


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
    path, handed = _told(arguments)
    if not path:
        return 0 if _is_spare(arguments) else 2
    directory = AttemptDir(path)
    launch = Launch.parse(directory.read(LAUNCH_FILE) or b"")
    if launch.order.sealed and not _is_spare(arguments):
        handed = _all_of_input()
    _settle(directory)
    secrets = secrets_read(handed) if launch.order.sealed else ()
    if secrets is None:
        ended = ended_unsupervised(attempt_id=launch.order.attempt_id, cause="launch_failed", detail=NOT_HANDED)
        directory.create(STATE_FILE, encode(ended))
        return 0
    me = identity_of(os.getpid())
    assert me is not None
    return Supervisor(directory, _with_secrets(launch, secrets), me, warm=warm, masker=Masker(secrets)).run()


def _with_secrets(launch: Launch, secrets: tuple[JobSecret, ...]) -> Launch:
    """Return the launch with the values in its environment; it is never written again."""
    order = launch.order
    env = {**order.env, **{secret.variable: secret.value for secret in secrets}}
    return replace(launch, order=replace(order, env=env, sealed=""))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
