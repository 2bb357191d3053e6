"""The process tree of one attempt: its processes and their memory and CPU time. Used by its supervisor.

The supervisor is a subreaper, so whatever its job starts, daemons included, stays below it.
"""

import contextlib
import os
import resource
import time

from agents.host.identity import TICKS_PER_S, ProcessStat, boot_id, read_stat, send_signal
from agents.protocol.ports import ProcessIdentity

# The kernel keeps the children of a thread in this file where it was built so; else every process is looked at.
_HAS_CHILDREN_FILE = os.path.exists(f"/proc/self/task/{os.getpid()}/children")


def _children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children", "rb") as file:
                found += [int(child) for child in file.read().split()]
    except OSError:
        pass
    return found


def _below_by_children(root_pid: int) -> list[ProcessStat]:
    found: list[ProcessStat] = []
    waiting = _children(root_pid)
    while waiting:
        stat = read_stat(waiting.pop())
        if stat is not None:
            found.append(stat)
            waiting += _children(stat.pid)
    return found


def _below_by_scan(root_pid: int) -> list[ProcessStat]:
    children: dict[int, list[ProcessStat]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (stat := read_stat(int(name))) is not None:
            children.setdefault(stat.parent_pid, []).append(stat)
    found: list[ProcessStat] = []
    waiting = [root_pid]
    while waiting:
        below = children.pop(waiting.pop(), [])
        found += below
        waiting += [stat.pid for stat in below]
    return found


def descendants(root_pid: int, *, thorough: bool) -> list[ProcessStat]:
    """Return every process below ``root_pid``, zombies included.

    Args:
        root_pid: Not included itself.
        thorough: Look at every process of the machine: the kernel's short cut may miss one while they are being forked.
    """
    if _HAS_CHILDREN_FILE and not thorough:
        return _below_by_children(root_pid)
    return _below_by_scan(root_pid)


def signal_tree(root_pid: int, number: int) -> int:
    """Send a signal to every process below ``root_pid``; return how many got it."""
    return sum(
        send_signal(ProcessIdentity(boot_id=boot_id(), pid=stat.pid, start_ticks=stat.start_ticks), number)
        for stat in descendants(root_pid, thorough=True)
    )


def signal_each_once(root_pid: int, number: int, *, leader: int | None) -> None:
    """Send a signal to every process below ``root_pid``, to none of them twice: many take a second one for "at once".

    Args:
        root_pid: Not included itself.
        number: Of the signal.
        leader: Of a process group below, not reaped yet: its whole group takes the signal in one stroke, so that none
            of it is missed by forking. None when it is gone.
    """
    # Looked for before any of them can answer: a process that is started to save is not to be stopped.
    found = descendants(root_pid, thorough=True)
    if leader is not None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, number)
    for stat in found:
        if stat.group != leader:
            send_signal(ProcessIdentity(boot_id=boot_id(), pid=stat.pid, start_ticks=stat.start_ticks), number)


def _resident_bytes(pid: int) -> int:
    stat = read_stat(pid)
    return 0 if stat is None else stat.rss_bytes


def _proportional_bytes(pid: int) -> int:
    """Return the resident bytes of a process, its part of shared ones; all of them where parts cannot be read."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            for line in file:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    # Read only now: one that has just ended, which is why it has no parts, uses nothing any more.
    return _resident_bytes(pid)


def kernel_ooms() -> int:
    """Return how often the kernel's out-of-memory killer has struck since boot."""
    with contextlib.suppress(OSError, ValueError), open("/proc/vmstat", encoding="ascii") as file:
        for line in file:
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0


class TreeMeter:
    """Measures the tree below one process."""

    def __init__(self, root_pid: int) -> None:
        self._root_pid = root_pid
        self._pids: list[int] = []
        self._cpu_before: tuple[float, float] | None = None

    def cpu_cores(self) -> float | None:
        """Return how many cores the tree used since the last call; None the first time. Finds new processes as well."""
        found = descendants(self._root_pid, thorough=False)
        self._pids = [stat.pid for stat in found]
        reaped = resource.getrusage(resource.RUSAGE_CHILDREN)
        used_s = sum(stat.cpu_ticks for stat in found) / TICKS_PER_S + reaped.ru_utime + reaped.ru_stime
        now_s = time.monotonic()
        before, self._cpu_before = self._cpu_before, (now_s, used_s)
        if before is None or now_s <= before[0]:
            return None
        return max(0.0, (used_s - before[1]) / (now_s - before[0]))

    @property
    def num_processes(self) -> int:
        """Return how many processes were found last."""
        return len(self._pids)

    def memory_bytes(self) -> int:
        """Return the resident bytes of the processes found last.

        Pages that several of them share, as forked data loaders do, count once.
        """
        share_bytes = _resident_bytes if len(self._pids) <= 1 else _proportional_bytes
        return sum(share_bytes(pid) for pid in self._pids)
