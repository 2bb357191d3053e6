"""The files that a job may use: the system, its Python, our runtime, what an admin opened, and folders of its own.

Nothing else of the agent's user is in reach: no key, no configuration, no other attempt, no home directory.
"""

import glob
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping

from agents.host.landlock import Confinement, abi
from agents.host.launch_names import CODE_PATH

# Where supervisors are told what the agent's configuration opens and closes; without it jobs are not confined.
JOB_PATHS = "CLUSTERWEB_JOB_PATHS"
_SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix/store", "/sys", "/proc"),
    "/run/systemd/resolve",
)
# What root owns alone: closed to a job that runs as root, where no queue can have a user.
_OF_ROOT = ("/etc/shadow", "/etc/gshadow", "/etc/ssh", "/etc/ssl/private", "/etc/sudoers.d")
_DEVICES = (
    *("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx", "/dev/pts"),
    *("/dev/shm", "/dev/kfd", "/dev/dri", "/dev/infiniband"),  # noqa: S108  (as the system has it)
)


def job_paths(*, readable: Iterable[object], writable: Iterable[object], closed: Iterable[object]) -> dict[str, str]:
    """Return the variable for supervisors; nothing where the kernel cannot confine a process.

    Args:
        readable, writable: What an admin opened for jobs.
        closed: What stays closed, also where it lies in what can be read.
    """
    if not abi():
        return {}
    told = {"readable": readable, "writable": writable, "closed": closed}
    return {JOB_PATHS: json.dumps({name: [str(path) for path in paths] for name, paths in told.items()})}


def confinement_of(
    environ: Mapping[str, str], *, own: Iterable[str], read: Iterable[str], as_root: bool
) -> Confinement | None:
    """Return what a job may use; None where it is not to be confined.

    Args:
        environ: Of the supervisor.
        own: Files and folders that the job may write, beside those that were opened for all jobs.
        read: What it may read beside the system, its Python, our code, and what was opened for all jobs.
        as_root: Whether it runs as root.
    """
    told = json.loads(environ.get(JOB_PATHS, "null"))
    if told is None:
        return None
    closed = (*told["closed"], CODE_PATH, *(_OF_ROOT if as_root else ()))
    shut = tuple(os.path.realpath(path) for path in closed)
    opened = [path for root in (*_SYSTEM, *told["readable"]) for path in _beside(os.path.realpath(root), shut)]
    return Confinement(
        listed=(CODE_PATH,),  # a folder on the import path is listed before any of it is read
        readable=(*opened, os.path.join(CODE_PATH, "agents"), *_python(), *read),
        writable=(*_DEVICES, *glob.glob("/dev/nvidia*"), *told["writable"], *own),
    )


def _python() -> tuple[str, ...]:
    """Return where our Python is; supervisors run without ``site``, which would know the virtual environment."""
    venv = os.path.dirname(os.path.dirname(sys.executable))
    is_venv = os.path.exists(os.path.join(venv, "pyvenv.cfg"))
    return (sys.base_prefix, *([venv] if is_venv else []))


def _beside(path: str, closed: tuple[str, ...]) -> Iterator[str]:
    """Yield the path, or where closed folders lie in it, all that lies beside them."""
    if not any(os.path.commonpath((path, shut)) == path for shut in closed):
        yield path
    elif path not in closed and os.path.isdir(path):
        for name in sorted(os.listdir(path)):
            yield from _beside(os.path.join(path, name), closed)
