"""Control groups (version 2) of attempts: the kernel tracks their processes and enforces limits. Standard library only.

They are used where a group is delegated to the agent: one that systemd gave it (``Delegate=yes``), one of its own user,
or the root of a namespace, as in a container. The agent makes a group in it for each attempt, and one for itself, since
processes may live in leaves alone. Limits depend on the available controllers; supervisors watch their jobs in
any case.

Source: Documentation/admin-guide/cgroup-v2.rst of Linux, and "Control Group APIs and Delegation" of systemd.
"""

import contextlib
import os
from collections.abc import Iterable

# Where supervisors are told of the delegated group.
GROUPS = "CLUSTERWEB_CGROUP"
# The group of the agent and of the supervisors; systemd may begin in it (``DelegateSubgroup=agent``).
OWN = "agent"
CONTROLLERS = ("memory", "pids", "cpuset")
# The kernel's limit as a multiple of the grant. The supervisor ends a job that exceeds its grant, and reports why; the
# kernel stops only what grows too fast for that.
HEADROOM = 1.05
# Processes and threads of one attempt.
MOST_TASKS = 32_768
_DELEGATED = ("user.delegate", "trusted.delegate")


def groups_of_host(*, proc: str = "/proc/self") -> tuple[str, frozenset[str]]:
    """Return the directory in which groups of attempts are made, empty where there is none, and its controllers.

    This process moves to a group of its own inside it where that is needed for limits.
    """
    try:
        with open(f"{proc}/cgroup") as group, open(f"{proc}/mountinfo") as mounts:
            top, path = own_group(group.read(), mounts.read())
        root = os.path.dirname(path) if os.path.basename(path) == OWN else path
        root = os.path.normpath(f"{top}/{root}")
        if not top or not _is_delegated(root, is_top=root == top):
            return "", frozenset()
        with contextlib.suppress(FileExistsError):
            os.mkdir(os.path.join(root, OWN), 0o755)
    except OSError:
        return "", frozenset()
    if not os.path.exists(os.path.join(root, OWN, "cgroup.kill")):  # a kernel before 5.14
        return "", frozenset()
    return root, _controllers(root)


def own_group(group: str, mounts: str) -> tuple[str, str]:
    """Return where groups of version 2 are mounted, and the path of a process's group in there; empty for none.

    Args:
        group: Content of ``/proc/<pid>/cgroup``.
        mounts: Content of ``/proc/<pid>/mountinfo``.
    """
    path = next((line[3:] for line in group.splitlines() if line.startswith("0::/")), "")
    for line in mounts.splitlines() if path else ():
        left, _, right = line.partition(" - ")
        if right.startswith("cgroup2 "):
            return left.split()[4], path
    return "", ""


def _is_delegated(root: str, *, is_top: bool) -> bool:
    """Return whether a group is the caller's: it is the top one in sight, systemd marked it, or the caller owns it."""
    if is_top:
        return os.access(root, os.W_OK)
    told = any(name in _DELEGATED for name in os.listxattr(root))
    return told or (os.geteuid() != 0 and os.stat(root).st_uid == os.geteuid())


def _controllers(root: str) -> frozenset[str]:
    """Return the controllers that groups inside ``root`` have, after asking for them."""
    missing = set(CONTROLLERS) & _words(root, "cgroup.controllers") - _words(root, "cgroup.subtree_control")
    if missing:
        _write(os.path.join(root, OWN), "cgroup.procs", str(os.getpid()))
    for name in sorted(missing):  # one by one: each may be refused for a reason of its own
        _write(root, "cgroup.subtree_control", f"+{name}")
    return frozenset(CONTROLLERS) & _words(root, "cgroup.subtree_control")


def attempt_group(attempt_id: str) -> "AttemptGroup | None":
    """Make the group of an attempt where its supervisor was told of a delegated one; None where there is none."""
    root = os.environ.get(GROUPS, "")
    with contextlib.suppress(OSError):
        return AttemptGroup(root, attempt_id) if root else None
    return None


class AttemptGroup:
    """The group of one attempt. Limits that the kernel does not offer here are left out."""

    def __init__(self, root: str, name: str) -> None:
        """Make the group, or take the one that is there. Raises OSError."""
        self.path = os.path.join(root, name)
        with contextlib.suppress(FileExistsError):
            os.mkdir(self.path, 0o755)
        for name, content in (("memory.oom.group", "1"), ("memory.swap.max", "0"), ("pids.max", str(MOST_TASKS))):
            _write(self.path, name, content)

    @property
    def entrance(self) -> str:
        """Return the file that a process enters the group by."""
        return os.path.join(self.path, "cgroup.procs")

    def add(self, pid: int) -> None:
        """Take in a process with its threads, not with its children."""
        _write(self.path, "cgroup.procs", str(pid))

    def hold(self, *, memory_bytes: int) -> None:
        """Limit the memory; 0 for no limit."""
        _write(self.path, "memory.max", str(int(memory_bytes * HEADROOM)) if memory_bytes > 0 else "max")

    def keep_on(self, cores: Iterable[int]) -> None:
        """Keep the processes on some cores, whatever they ask the kernel for."""
        _write(self.path, "cpuset.cpus", ",".join(map(str, sorted(cores))))

    def pids(self) -> list[int]:
        """Return the pids of its processes."""
        return [int(pid) for pid in _read(self.path, "cgroup.procs").split()]

    def ooms(self) -> int:
        """Return how many of its processes the kernel killed for their memory."""
        lines = (line.split() for line in _read(self.path, "memory.events").splitlines())
        return sum(int(count) for name, count in lines if name == "oom_kill")

    def kill(self) -> None:
        """Kill all its processes at once."""
        _write(self.path, "cgroup.kill", "1")

    def remove(self) -> bool:
        """Remove it if it is empty; return whether it is gone."""
        with contextlib.suppress(OSError):
            os.rmdir(self.path)
        return not os.path.exists(self.path)


def _read(directory: str, name: str) -> str:
    with contextlib.suppress(OSError), open(os.path.join(directory, name), encoding="ascii") as file:
        return file.read()
    return ""


def _words(directory: str, name: str) -> set[str]:
    return set(_read(directory, name).split())


def _write(directory: str, name: str, content: str) -> None:
    """Write one line to a file of a group; a missing file or a refusal is ignored."""
    with contextlib.suppress(OSError):
        descriptor = os.open(os.path.join(directory, name), os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(descriptor, content.encode())
        finally:
            os.close(descriptor)
