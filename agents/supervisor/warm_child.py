"""The supervisor's side of a warm training process (``warm.py``). Standard library only.

Decides for which jobs such a process may be used: those that run Python of the agent's own interpreter, as the user
of the process, and that set no variable that is read only at start. All others are started anew.
"""

import array
import contextlib
import json
import os
import signal
import socket
from collections.abc import Mapping
from dataclasses import asdict

from agents.host.job_paths import JOB_PATHS
from agents.host.launch_names import ATTEMPT_MARK
from agents.host.passage import passage_of
from agents.supervisor.child import ChildPlan, start_child
from agents.supervisor.warm import NOBODY, TAKEN, THREADED

# How long the process may take to become the job, seconds; longer than that and another one is started.
TAKE_OVER_S = 2.0
# Variables that an interpreter or a library reads once, when it is loaded.
_READ_EARLY = (
    "PYTHON",
    "OMP_",
    "MKL_",
    "KMP_",
    "GOMP_",
    "OPENBLAS_",
    "TORCH",
    "MALLOC_",
    "GLIBC_",
    "LC_",
    "LANG",
    "TZ",
)
_PYTHONS = ("python", "python3")


def may_take(plan: ChildPlan, *, asked: Mapping[str, str], warm_uid: int | None, interpreter: str) -> bool:
    """Return whether a job may run in a process that has started already.

    Args:
        plan: Of the job.
        asked: Environment that its owner asked for.
        warm_uid: User of the process; None for our own.
        interpreter: That the process runs.
    """
    command = plan.argv
    if plan.uid != warm_uid or len(command) < 2 or command[0] not in (*_PYTHONS, interpreter):
        return False
    is_module = command[1] == "-m" and len(command) > 2 and not command[2].startswith("-")
    is_file = command[1].endswith(".py") and not command[1].startswith("-")
    return (is_module or is_file) and not any(name.startswith(_READ_EARLY) for name in asked)


class WarmChild:
    """A child of this process that imports what training needs, and waits.

    Attributes:
        uid: User that it runs as; None for our own.
        is_threaded: It had more than one thread, so it could not confine itself and did not become the job.
    """

    def __init__(self, *, interpreter: str, code_path: str, uid: int | None) -> None:
        """Start it, as a job is started. Raises StartFailed, OSError."""
        self.uid = uid
        self.is_threaded = False
        self._channel, theirs = socket.socketpair()
        work_fd, output_fd = os.open("/", os.O_RDONLY), os.open(os.devnull, os.O_WRONLY)
        try:
            theirs.set_inheritable(True)
            self.pid = start_child(
                ChildPlan(
                    argv=(interpreter, "-P", "-m", "agents.supervisor.warm", str(theirs.fileno())),
                    env={
                        "PATH": os.path.dirname(interpreter),
                        "PYTHONPATH": code_path,
                        "PYTHONUNBUFFERED": "1",
                        "LANG": "C.UTF-8",
                        # Numpy's threads would be made at import, too early to be confined with the job.
                        **({"OPENBLAS_NUM_THREADS": "1"} if JOB_PATHS in os.environ else {}),
                        ATTEMPT_MARK: NOBODY,
                    },
                    work_fd=work_fd,
                    output_fd=output_fd,
                    cpu_ids=(),
                    largest_file_bytes=0,
                    uid=uid,
                    passage={} if uid is None else passage_of(os.environ),
                )
            )
        finally:
            theirs.close()
            os.close(work_fd)
            os.close(output_fd)

    def become(self, plan: ChildPlan) -> int | None:
        """Let it become a job and return its pid; None when it is not ready or not there any more."""
        told = {
            "argv": plan.argv,
            "env": dict(plan.env),
            "cpu_ids": plan.cpu_ids,
            "largest_file_bytes": plan.largest_file_bytes,
            "work_path": plan.work_path if plan.passage else "",
            "confinement": None if plan.confinement is None else asdict(plan.confinement),
        }
        content = json.dumps(told).encode()
        descriptors = array.array("i", [plan.work_fd, plan.output_fd])
        try:
            self._channel.settimeout(TAKE_OVER_S)
            if self._channel.recv(1) != b"r":
                return None
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)]
            self._channel.sendmsg([len(content).to_bytes(8, "big")], rights)
            self._channel.sendall(content)
            answer = self._channel.recv(1)
            self.is_threaded = answer == THREADED
            return self.pid if answer == TAKEN else None
        except OSError:
            return None
        finally:
            self._channel.close()

    def end(self) -> None:
        """Kill it: the job runs in another process."""
        self._channel.close()
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
