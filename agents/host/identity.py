"""Identity of a process beyond its pid, and signals that reach no other process.

A pid is used again; boot id + pid + start time is not. Signals go through a pidfd that is opened before the identity is
compared, so that a process which takes over the pid in between is never hit.
"""

import os
import signal
from dataclasses import dataclass
from functools import lru_cache

from agents.protocol.ports import ProcessIdentity

_DEAD = frozenset("ZXx")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class ProcessStat:
    """A line of /proc/<pid>/stat, as far as it is needed.

    Attributes:
        state: One letter; Z and X are dead.
        cpu_ticks: Of the process and its reaped children.
        rss_bytes: Resident memory.
    """

    pid: int
    state: str
    parent_pid: int
    group: int
    start_ticks: int
    cpu_ticks: int
    rss_bytes: int


@lru_cache(maxsize=1)
def boot_id() -> str:
    """Return the id of the kernel's present boot."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def read_stat(pid: int) -> ProcessStat | None:
    """Return what the kernel says of a process, or None when there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return None
    # The name in brackets may hold anything, brackets included.
    fields = text[text.rindex(b")") + 2 :].split()
    return ProcessStat(
        pid=pid,
        state=chr(fields[0][0]),
        parent_pid=int(fields[1]),
        group=int(fields[2]),
        start_ticks=int(fields[19]),
        cpu_ticks=sum(int(value) for value in fields[11:15]),
        rss_bytes=int(fields[21]) * PAGE_BYTES,
    )


def identity_of(pid: int) -> ProcessIdentity | None:
    """Return the identity of a process that exists now, zombies included."""
    stat = read_stat(pid)
    return None if stat is None else ProcessIdentity(boot_id=boot_id(), pid=pid, start_ticks=stat.start_ticks)


def is_alive(identity: ProcessIdentity) -> bool:
    """Return whether the process exists, is the same one, and is no zombie."""
    if identity.boot_id != boot_id():
        return False
    stat = read_stat(identity.pid)
    return stat is not None and stat.start_ticks == identity.start_ticks and stat.state not in _DEAD


def send_signal(identity: ProcessIdentity, number: int, *, group: bool = False) -> bool:
    """Send a signal if the process is still the same one and return whether it was; ``group`` reaches its group."""
    try:
        descriptor = os.pidfd_open(identity.pid)
    except OSError:
        return False
    try:
        if not is_alive(identity):
            return False
        if group:
            os.killpg(identity.pid, number)
        else:
            signal.pidfd_send_signal(descriptor, number)
    except (ProcessLookupError, PermissionError):
        return False
    finally:
        os.close(descriptor)
    return True
