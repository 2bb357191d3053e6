"""What breaks in a chaos run. Each fault begins, and gives back what ends it; none of them spoils files of jobs."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random

import psutil
import redis

from clusterweb.config.broker import socket_path
from tests.chaos.database import Database, OwnPostgres
from tests.chaos.hosts import Host
from tests.chaos.links import Link
from tests.support.e2e.stack import Stack

End = Callable[[], object]
# Words of the command lines of each kind of process; a trainer is known by its mark instead.
PROCESSES: Mapping[str, str] = {
    "web": "-m uvicorn",
    "beat": "clusterweb beat",
    "scheduler": "-Q scheduler",
    "simulations": "-Q simulations",
    "broker": "-server",
    "agent": "agents.celery_app",
    "supervisor": "agents.supervisor.supervise",
    "trainer": "",
}
# Held ready by an agent for the next job.
WAITING = "0" * 26
# Longer than a lease of the stack (20 s) and its grace (8 s) together, now and then.
STOPS_MOST_S = 40.0
LOCK_MOST_S = 25.0
CUT_MOST_S = 40.0
LOST_LEAST_FRAC, LOST_MORE_FRAC = 0.1, 0.3
FULL_MOST_S = 15.0
DISK_MIB = 512


def processes(stack: Stack, name: str) -> list[psutil.Process]:
    """Return the processes of one kind that run, keepers left out."""
    return [process for process in stack.processes(PROCESSES[name]) if _is_a(name, process)]


def _is_a(name: str, process: psutil.Process) -> bool:
    try:
        line, attempt = " ".join(process.cmdline()), process.environ().get("CLUSTERWEB_ATTEMPT_ID", WAITING)
    except psutil.Error:
        return False  # it is gone
    if name == "trainer":
        return attempt != WAITING and PROCESSES["supervisor"] not in line
    return "clusterweb.keep" not in line


class Disk:
    """A small file system of its own, so that it can be full without anything else being so. Needs root."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()
        options = f"size={DISK_MIB}m,mode=0755"
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(path)], capture_output=True)
        self.is_small = mounted.returncode == 0

    def close(self) -> None:
        """Give it back."""
        if self.is_small:
            subprocess.run(["umount", "-l", str(self.path)], check=True)


class Faults:
    """Breaks one running product.

    Attributes:
        kinds: Names of what can be broken here.
    """

    def __init__(
        self,
        stack: Stack,
        *,
        disk: Disk,
        links: Mapping[str, Link],
        database: Database,
        hosts: Sequence[Host],
        loses: str | None,
        rng: Random,
    ) -> None:
        self._stack, self._disk, self._rng = stack, disk, rng
        self._database, self._hosts = database, hosts
        self.kinds: dict[str, Callable[[], tuple[str, float, End]]] = {
            **{f"kill {name}": lambda name=name: self._kill(name) for name in PROCESSES},  # type: ignore[misc]
            **{f"stop {name}": lambda name=name: self._stop(name) for name in PROCESSES},  # type: ignore[misc]
            "kill everything": self._kill_everything,
            "empty the broker": self._empty,
            "lock the database": self._lock,
            "cut a link": lambda: self._cut(links),
            "slow a link": lambda: self._slow(links),
        }
        if disk.is_small:
            self.kinds["fill the disk"] = self._fill
        if hosts:
            of_hosts = {host.name: host.link for host in hosts}
            self.kinds["part a host from the network"] = self._part
            self.kinds["cut the link of a host"] = lambda: self._cut(of_hosts)
            self.kinds["slow the link of a host"] = lambda: self._slow(of_hosts)
            if loses is not None:
                self.kinds["lose packets of a host"] = lambda: self._lose(loses)
        if isinstance(database, OwnPostgres):
            restart, switch = database.restart, database.switch
            self.kinds["restart the database"] = lambda: (restart(self._rng), 0.0, lambda: None)
            self.kinds["switch to a standby"] = lambda: (switch(self._rng), 0.0, lambda: None)

    def begin(self, kind: str) -> tuple[str, float, End]:
        """Break something; return what was hit, for how many seconds it is to last, and what ends it."""
        return self.kinds[kind]()

    def _one(self, name: str) -> psutil.Process | None:
        found = sorted(processes(self._stack, name), key=lambda process: process.pid)
        return self._rng.choice(found) if found else None

    def _kill(self, name: str) -> tuple[str, float, End]:
        victim = self._one(name)
        if victim is None:
            return "nothing was there", 0.0, lambda: None
        _signal(victim, signal.SIGKILL)
        return f"pid {victim.pid}", 0.0, lambda: None

    def _stop(self, name: str) -> tuple[str, float, End]:
        victim = self._one(name)
        if victim is None:
            return "nothing was there", 0.0, lambda: None
        _signal(victim, signal.SIGSTOP)
        return (
            f"pid {victim.pid}",
            1.0 + STOPS_MOST_S * self._rng.random() ** 2,
            lambda: _signal(victim, signal.SIGCONT),
        )

    def _kill_everything(self) -> tuple[str, float, End]:
        victims = [victim for name in PROCESSES for victim in processes(self._stack, name)]
        for victim in victims:
            _signal(victim, signal.SIGKILL)
        return f"{len(victims)} processes", 0.0, lambda: None

    def _empty(self) -> tuple[str, float, End]:
        client = redis.Redis(
            unix_socket_path=str(socket_path(self._stack.var_dir)),
            password=(self._stack.var_dir / "redis" / "password").read_text().strip(),
        )
        with contextlib.suppress(redis.RedisError):
            client.flushall()
        client.close()
        return "", 0.0, lambda: None

    def _lock(self) -> tuple[str, float, End]:
        seconds = 1.0 + LOCK_MOST_S * self._rng.random()
        return "", seconds, self._database.lock(seconds)

    def _part(self) -> tuple[str, float, End]:
        host = self._rng.choice(self._hosts)
        host.part()
        return host.name, 1.0 + CUT_MOST_S * self._rng.random() ** 2, host.join

    def _lose(self, way: str) -> tuple[str, float, End]:
        host, frac = self._rng.choice(self._hosts), LOST_LEAST_FRAC + LOST_MORE_FRAC * self._rng.random()
        host.lose(way, frac=frac)
        return f"{frac:.0%} of {host.name}", 5.0 + 25.0 * self._rng.random(), lambda: host.lose_none(way)

    def _cut(self, links: Mapping[str, Link]) -> tuple[str, float, End]:
        name, link = self._rng.choice(sorted(links.items()))
        link.is_cut = True
        return name, 1.0 + CUT_MOST_S * self._rng.random() ** 2, lambda: setattr(link, "is_cut", False)

    def _slow(self, links: Mapping[str, Link]) -> tuple[str, float, End]:
        name, link = self._rng.choice(sorted(links.items()))
        link.delay_s = 0.2 + 2.0 * self._rng.random()
        return f"{name} by {link.delay_s:.1f} s", 5.0 + 15.0 * self._rng.random(), lambda: setattr(link, "delay_s", 0.0)

    def _fill(self) -> tuple[str, float, End]:
        path = self._disk.path / "filler"
        with contextlib.suppress(OSError), path.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 20))
        with contextlib.suppress(OSError), path.open("ab", buffering=0) as file:
            while True:
                file.write(bytes(512))
        return f"{path.stat().st_size >> 20} MiB", 1.0 + FULL_MOST_S * self._rng.random(), path.unlink


def _signal(process: psutil.Process, number: int) -> None:
    with contextlib.suppress(psutil.Error, ProcessLookupError):
        if process.is_running():  # and is not another process by the same number
            os.kill(process.pid, number)
