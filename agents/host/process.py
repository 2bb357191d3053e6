"""The real Processes port: starts supervisors detached and checks them by identity."""

import logging
import os
import signal
import subprocess
import threading
from dataclasses import dataclass

from agents.host.cgroup import AttemptGroup
from agents.host.identity import identity_of, is_alive, send_signal
from agents.host.launch_names import ATTEMPT_MARK, SPARE
from agents.host.short_tmp import short_tmp_remove
from agents.protocol.ports import ProcessIdentity, SpawnRequest

log = logging.getLogger(__name__)

# What fits into a pipe that is empty, so that the agent never waits for a spare supervisor to read.
PIPE_BYTES = 64 * 1024
# Left to the machine when a training process is started ahead of time: three times what one with torch takes.
WARM_ROOM_BYTES = 1024**3


@dataclass(frozen=True, slots=True, kw_only=True)
class SpareSupervisor:
    """A supervisor that has started and waits for an attempt; the attempt is written to ``tell_fd``."""

    argv: tuple[str, ...]
    identity: ProcessIdentity
    tell_fd: int


class HostProcesses:
    """Processes of this machine."""

    def __init__(self, *, groups: str = "") -> None:
        """Begin with none; ``groups`` is where the control groups of attempts are, empty for nowhere."""
        self._groups = groups
        # Ended supervisors are reaped by pid; those adopted from an earlier agent are reaped by init.
        self._children: list[int] = []
        self._reaping = threading.Lock()  # one thread starts processes, another looks at them
        self._spares: list[SpareSupervisor] = []

    def prepare(self, request: SpawnRequest, *, kind: str = SPARE, count: int = 1) -> None:
        """Start a supervisor ahead of time for the next ``spawn`` of its kind, unless ``count`` wait already.

        Python takes longest to start. A spare ends with this process; spares of another kind are dismissed.
        """
        if kind != SPARE and available_memory_bytes() < WARM_ROOM_BYTES:
            kind, count = SPARE, 1
        argv = (*request.argv[:-1], kind)
        self.dismiss(but=argv)
        if len(self._spares) >= count:
            return
        hear_fd, tell_fd = os.pipe2(os.O_CLOEXEC)
        try:
            identity = self._start(argv, request, stdin=hear_fd)
        except OSError:
            os.close(tell_fd)
            raise
        finally:
            os.close(hear_fd)
        self._spares.append(SpareSupervisor(argv=argv, identity=identity, tell_fd=tell_fd))

    def dismiss(self, *, but: tuple[str, ...] = ()) -> None:
        """Let the waiting supervisors end, except live ones with these arguments."""
        kept = [spare for spare in self._spares if spare.argv == but and is_alive(spare.identity)]
        for spare in self._spares:
            if spare not in kept:
                os.close(spare.tell_fd)
        self._spares = kept

    def spawn(self, request: SpawnRequest) -> ProcessIdentity:
        """Start a detached process in a session of its own. Raises OSError."""
        self._reap()
        told = os.fsencode(request.argv[-1]) + b"\n" + request.handed
        if self._spares and len(told) <= PIPE_BYTES:
            spare = self._spares.pop(0)  # the one that has had most time to get ready
            try:
                if spare.argv[:-1] == request.argv[:-1] and is_alive(spare.identity):
                    os.write(spare.tell_fd, told)
                    return spare.identity
            except BrokenPipeError:
                log.warning("spare_supervisor_died")
            finally:
                os.close(spare.tell_fd)
        if not request.handed:
            return self._start(request.argv, request, stdin=subprocess.DEVNULL)
        with open(os.memfd_create("handed"), "w+b") as memory:
            memory.write(request.handed)
            memory.seek(0)
            return self._start(request.argv, request, stdin=memory.fileno())

    def start_with(self, request: SpawnRequest, *, stdin: int) -> ProcessIdentity:
        """Start a detached process that holds a descriptor as its standard input. Raises OSError."""
        self._reap()
        return self._start(request.argv, request, stdin=stdin)

    def _start(self, argv: tuple[str, ...], request: SpawnRequest, *, stdin: int) -> ProcessIdentity:
        child = subprocess.Popen(  # noqa: S603  (argv of our own)
            argv,
            env=dict(request.env),
            cwd=request.cwd,
            stdin=stdin,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        child.returncode = 0  # it outlives this object and is no concern of the subprocess module any more
        with self._reaping:
            self._children.append(child.pid)
        # Not reaped yet, so the pid is still its own even when it has ended already.
        identity = identity_of(child.pid)
        if identity is None:
            raise ProcessLookupError(child.pid)
        return identity

    def signal(self, identity: ProcessIdentity, number: int, *, group: bool = False) -> bool:
        """Send a signal if the process is still the same one; ``group`` reaches its whole process group."""
        return send_signal(identity, number, group=group)

    def alive(self, identity: ProcessIdentity) -> bool:
        """Return whether the process exists, is the same one, and is no zombie."""
        self._reap()
        return is_alive(identity)

    def end_all(self, attempt_id: str) -> int:
        """Send KILL to all processes that carry the attempt's mark or are in its group; return how many there were.

        What their supervisor would have removed outside the attempt's directory is removed as well.
        """
        short_tmp_remove(attempt_id)
        marked = [identity for identity in map(identity_of, _pids()) if identity and _has_mark(identity, attempt_id)]
        for identity in marked:
            send_signal(identity, signal.SIGKILL)
        if self._groups and os.path.isdir(os.path.join(self._groups, attempt_id)):
            group = AttemptGroup(self._groups, attempt_id)
            unmarked = set(group.pids()) - {identity.pid for identity in marked}
            marked += [identity for identity in map(identity_of, unmarked) if identity and is_alive(identity)]
            group.kill()
            group.remove()
        if marked:
            log.warning("leftovers_killed", extra={"attempt": attempt_id, "count": len(marked)})
        return len(marked)

    def _reap(self) -> None:
        with self._reaping:
            self._children = [pid for pid in self._children if _is_unreaped(pid)]


def available_memory_bytes() -> int:
    """Return what the kernel could give to a new process now."""
    with open("/proc/meminfo", encoding="ascii") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return 0


def _is_unreaped(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG) == (0, 0)
    except ChildProcessError:
        return False


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _has_mark(identity: ProcessIdentity, attempt_id: str) -> bool:
    """Return whether the environment a process was started with names the attempt. A zombie has none."""
    try:
        with open(f"/proc/{identity.pid}/environ", "rb") as file:
            environment = file.read().split(b"\0")
    except OSError:
        return False
    return f"{ATTEMPT_MARK}={attempt_id}".encode() in environment and is_alive(identity)
