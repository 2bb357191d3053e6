"""Start the training process: set-up between fork and exec, and the end cause of a failed start.

Only for the supervisor, which has one thread: PDEATHSIG fires when the thread that forked ends, and code between fork
and exec is safe only where no other thread holds a lock.
"""

import contextlib
import ctypes
import errno
import os
import resource
import signal
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NoReturn

from agents.host.landlock import Confinement, confine
from agents.host.passage import Passage, open_passage
from agents.host.system_calls import refuse_calls
from agents.protocol.desired_state import STOP_SIGNALS

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAPBSET_DROP = 24
_CAPABILITY_VERSION_3 = 0x20080522
_MOST_FILES = 65_536
# Processes and threads of all jobs of one user on this machine.
_MOST_TASKS = 32_768
# The kernel's out-of-memory killer takes the job before anything of ours.
_OOM_SCORE = "500"
_NOT_FOUND = frozenset({errno.ENOENT, errno.EACCES, errno.ENOEXEC, errno.ENOTDIR, errno.EISDIR, errno.ELOOP})

_libc = ctypes.CDLL(None, use_errno=True)


class StartFailed(Exception):
    """The training process could not be started; carries the end cause."""

    def __init__(self, cause: Literal["command_not_found", "launch_failed", "environment"], detail: str) -> None:
        super().__init__(detail)
        self.cause = cause
        self.detail = detail


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildPlan:
    """What the training process is.

    Attributes:
        argv: Program and arguments; never a shell line.
        env: The whole environment.
        work_fd: Directory it starts in.
        output_fd: Where its output and errors go.
        cpu_ids: Cores it is pinned to; empty for no pinning.
        largest_file_bytes: Limit of one file; 0 for none.
        uid: User, and group, that it runs as; None for our own.
        entrance: File of the control group that it enters; empty for none.
        confinement: What it may use of the machine; None for all that its user may.
        passage: What it is shown below folders that are closed to its user.
        work_path: The directory it starts in by its path, for a process with a passage.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    work_fd: int
    output_fd: int
    cpu_ids: tuple[int, ...]
    largest_file_bytes: int
    uid: int | None = None
    entrance: str = ""
    confinement: Confinement | None = None
    passage: Passage = field(default_factory=dict)
    work_path: str = "/"


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, value, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), "prctl")


def become_subreaper() -> None:
    """Adopt every descendant whose parent dies, daemons included. Raises OSError."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def start_child(plan: ChildPlan) -> int:
    """Start the training process in a session of its own and return its pid once it runs the command.

    Raises:
        StartFailed: There is no such command, or it could not be set up.
    """
    if not plan.argv or not plan.argv[0]:
        raise StartFailed("command_not_found", "The command is empty.")
    problem_read, problem_write = os.pipe2(os.O_CLOEXEC)
    parent_pid = os.getpid()
    try:
        pid = os.fork()
    except OSError as error:
        os.close(problem_read)
        os.close(problem_write)
        raise StartFailed("launch_failed", f"No process could be made: {error.strerror}.") from None
    if pid == 0:
        _become(plan, parent_pid, problem_write)
    os.close(problem_write)
    with open(problem_read, "rb") as file:
        problem = file.read()  # ends when exec closes the other end
    if problem:
        os.waitpid(pid, 0)
        raise _failure(plan, problem.decode())
    return pid


def _failure(plan: ChildPlan, problem: str) -> StartFailed:
    stage, _, text = problem.partition(" ")
    number = int(text) if text.isdigit() else 0
    reason = os.strerror(number) if number else text
    if stage == "exec" and number in _NOT_FOUND:
        return StartFailed("command_not_found", f"{plan.argv[0][:200]}: {reason}.")
    return StartFailed("launch_failed", f"The job could not be set up: {reason} ({stage}).")


def _become(plan: ChildPlan, parent_pid: int, problem_write: int) -> NoReturn:
    stage = "setup"
    try:
        _set_up(plan, parent_pid)
        stage = "exec"
        os.execvpe(plan.argv[0], plan.argv, dict(plan.env))  # noqa: S606  (that is its purpose)
    except OSError as error:
        os.write(problem_write, f"{stage} {error.errno}".encode())
    except (ValueError, UnicodeError) as error:
        os.write(problem_write, f"{stage} {error}".encode(errors="replace")[:300])
    finally:
        os._exit(127)


def _set_up(plan: ChildPlan, parent_pid: int) -> None:
    os.setsid()
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGURG, *STOP_SIGNALS.values()):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.set_wakeup_fd(-1)
    os.umask(0o077)
    if plan.cpu_ids:
        # A core that was taken offline is no reason to refuse the job.
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, plan.cpu_ids)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write(_OOM_SCORE)
    if plan.entrance:
        # Outside it the supervisor watches alone, as on a machine without groups.
        with contextlib.suppress(OSError), open(plan.entrance, "w") as file:
            file.write("0")
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_NOFILE, _MOST_FILES)
    if plan.largest_file_bytes > 0:
        _limit(resource.RLIMIT_FSIZE, plan.largest_file_bytes)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(plan.output_fd, 1)
    os.dup2(plan.output_fd, 2)
    if plan.passage:
        open_passage(plan.passage)
        os.chdir(plan.work_path)  # the descriptor leads past it
    else:
        os.fchdir(plan.work_fd)
    if plan.uid is not None:
        _limit(resource.RLIMIT_NPROC, _MOST_TASKS)
        os.setgroups([])
        os.setresgid(plan.uid, plan.uid, plan.uid)
        os.setresuid(plan.uid, plan.uid, plan.uid)
    elif os.geteuid() == 0:
        _drop_capabilities()
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    # The job never outlives its supervisor. Becoming another user takes this away, so it is set last; the parent may
    # have died before.
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:
        os._exit(127)
    if plan.confinement is not None:
        confine(plan.confinement)
        refuse_calls()


def _drop_capabilities() -> None:
    """Leave root none of its rights but those of an owner of files; with no new privileges they never come back."""
    for number in range(64):
        with contextlib.suppress(OSError):  # a number that this kernel does not know
            _prctl(_PR_CAPBSET_DROP, number)
    header, none = struct.pack("Ii", _CAPABILITY_VERSION_3, 0), bytes(24)
    if _libc.capset(header, none) != 0:
        raise OSError(ctypes.get_errno(), "capset")


def _limit(kind: int, value: int) -> None:
    _, hard = resource.getrlimit(kind)
    wanted = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (wanted, wanted))
