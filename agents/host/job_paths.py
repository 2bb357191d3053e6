"""The files that a job may use: the system, its Python, our runtime, what an admin opened, and folders of its own.

Nothing else of the agent's user can be opened: no key, no configuration, no other attempt, no home directory. The names
below the code's folder can be listed, since it is on the import path.
"""

import glob
import json
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping

from agents.host.landlock import Confinement, abi, confine
from agents.host.launch_names import CODE_PATH, JOB_CODE

# Where supervisors are told what the agent's configuration opens and closes; without it jobs are not confined.
JOB_PATHS = "CLUSTERWEB_JOB_PATHS"
_CONFIGURATION = "/etc"
_SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/sys", "/proc"),
    # Where names of hosts and certificates are on some systems.
    *("/etc/resolv.conf", "/var/lib/ca-certificates"),
)
_DEVICES = (
    *("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/shm"),  # noqa: S108  (the system's)
    *("/dev/kfd", "/dev/dri", "/dev/infiniband"),
)
# All pseudo-terminals of a machine are in one folder, each with an owner: those of other users are closed without us.
_TERMINALS = ("/dev/ptmx", "/dev/pts", "/dev/tty")


def job_paths(*, readable: Iterable[object], writable: Iterable[object], closed: Iterable[object]) -> dict[str, str]:
    """Return the variable for supervisors; nothing where the kernel cannot confine a process.

    Made once by the agent: to look for what is open takes longer than to start a job may.

    Args:
        readable, writable: What an admin opened for jobs.
        closed: What stays closed, also where it lies in what is open.
    """
    if not abi():
        return {}
    shut = tuple(os.path.realpath(str(path)) for path in (*closed, CODE_PATH))

    def opened(*roots: object) -> list[str]:
        return [path for root in roots for path in _beside(os.path.realpath(str(root)), shut)]

    nvidia = glob.glob("/dev/nvidia*")
    ours = [os.path.realpath(path) for path in (*JOB_CODE, *python_folders())]
    told = {
        "readable": opened(*_SYSTEM, *readable) + ours,
        "configuration": opened(_CONFIGURATION),
        "configuration_of_root": opened(*_for_all(_CONFIGURATION)) if os.geteuid() == 0 else [],
        "writable": opened(*_DEVICES, *nvidia, *writable),
        # CUDA names its threads by /proc/<pid>/task/<tid>/comm, and does not start (error 304) where it may not. A rule
        # cannot name the folders of processes that are still to come; who a file below belongs to still counts.
        "rewritable": ["/proc"] if nvidia else [],
    }
    return {JOB_PATHS: json.dumps(told)}


def confinement_of(
    environ: Mapping[str, str], *, own: Iterable[str], read: Iterable[str], uid: int | None
) -> Confinement | None:
    """Return what a job may use; None where it is not to be confined.

    Args:
        environ: Of the supervisor.
        own: Files and folders that the job may write, without links in their paths.
        read: What it may read of its own, likewise.
        uid: User of its own that it runs as; None for ours, whose terminals stay closed to it. Where ours is root, it
            could also read what root alone should.
    """
    told = json.loads(environ.get(JOB_PATHS, "null"))
    if told is None:
        return None
    as_root = uid is None and os.geteuid() == 0
    configuration = told["configuration_of_root" if as_root else "configuration"]
    return Confinement(
        listed=(CODE_PATH,),  # a folder on the import path is listed before any of it is read
        readable=(*told["readable"], *configuration, *read),
        writable=(*told["writable"], *(() if uid is None else _TERMINALS), *own),
        # Root owns /proc/sys, so as root this would be the whole machine: such a server takes no jobs (agents/loop.py).
        rewritable=() if as_root else tuple(told["rewritable"]),
    )


def confine_to(environ: Mapping[str, str], folder: str) -> None:
    """Confine this process to one folder, where jobs are confined. Raises OSError."""
    if JOB_PATHS in environ:
        confine(Confinement(listed=(), readable=(), writable=(folder,)))


def python_folders() -> tuple[str, ...]:
    """Return where our Python is; supervisors run without ``site``, which would know the virtual environment."""
    venv = os.path.dirname(os.path.dirname(sys.executable))
    is_venv = os.path.exists(os.path.join(venv, "pyvenv.cfg")) and os.path.realpath(venv) != CODE_PATH
    return (sys.base_prefix, *([venv] if is_venv else []))


def _beside(path: str, closed: tuple[str, ...]) -> Iterator[str]:
    """Yield the path, or where closed folders lie in it, all that lies beside them, links left out."""
    if path in closed or any(_is_in(path, shut) for shut in closed):
        return
    if not any(_is_in(shut, path) for shut in closed):
        yield path
        return
    for entry in _entries(path):
        if not entry.is_symlink():
            yield from _beside(entry.path, closed)


def _is_in(path: str, folder: str) -> bool:
    return os.path.commonpath((path, folder)) == folder and path != folder


def _for_all(path: str) -> list[str]:
    """Return what every user may read: the folder itself if all of it is readable, else its readable parts."""
    parts, is_whole = [], True
    for entry in _entries(path):
        if entry.is_symlink():
            continue
        mode = entry.stat(follow_symlinks=False).st_mode
        if stat.S_ISDIR(mode):
            found = _for_all(entry.path) if mode & 0o005 == 0o005 else []
        else:
            found = [entry.path] if mode & 0o004 else []
        parts += found
        is_whole = is_whole and found == [entry.path]
    return [path] if is_whole else parts


def _entries(path: str) -> list["os.DirEntry[str]"]:
    try:
        return sorted(os.scandir(path), key=lambda entry: entry.name)
    except OSError:
        return []  # not to be listed by this user
