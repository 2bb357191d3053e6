"""Hosts of their own in network namespaces: an agent in each, a cable that is pulled or loses packets. Needs root."""

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping

from clusterweb.config.broker import socket_path
from tests.chaos.links import Link
from tests.support.e2e.stack import ROOT, Stack

COUNT = 3
NETWORK = "10.213"


Commands = list[tuple[str, ...]]


def _netem(device: str, frac: float) -> Commands:
    """The kernel's own emulation of networks loses what leaves the device."""
    return [("qdisc", "add", "dev", device, "root", "netem", "loss", f"{frac:.0%}")]


def _filter(device: str, frac: float) -> Commands:
    """Many kernels come without netem: a filter draws a number for each packet that arrives, and drops by it."""
    drop, go_on, draw = 2, 0, 0xFFFFF038  # TC_ACT_SHOT, TC_ACT_OK, where a load finds a number of 32 bits by chance
    program = f"4,32 0 0 {draw},37 0 1 {int(frac * 2**32)},6 0 0 {go_on},6 0 0 {drop}"
    return [
        ("qdisc", "add", "dev", device, "clsact"),
        ("filter", "add", "dev", device, "ingress", "bpf", "da", "bytecode", program),
    ]


# How packets can be lost, by the qdisc that ends it.
WAYS: Mapping[str, Callable[[str, float], Commands]] = {"root": _netem, "clsact": _filter}


def can_be_made() -> bool:
    """Return whether namespaces may be made here."""
    name = f"cw{os.getpid()}"
    made = _can("ip", "netns", "add", name)
    if made:
        _ip("netns", "del", name)
    return made


def way_to_lose() -> str | None:
    """Return how packets can be lost here, a key of ``WAYS``; None where neither ``tc`` nor the kernel offers one."""
    name = f"cw{os.getpid()}"
    _ip("netns", "add", name)
    try:
        ways = (way for way, make in WAYS.items() if all(_can("tc", "-n", name, *one) for one in make("lo", 0.5)))
        return next(ways, None)
    finally:
        _ip("netns", "del", name)


def _can(*command: str) -> bool:
    try:
        return subprocess.run(command, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


def _tc(*arguments: str) -> None:
    subprocess.run(["tc", *arguments], check=True, capture_output=True)


class Host:
    """One namespace with a cable to ours, at whose end the broker answers; ``start`` begins an agent in it."""

    def __init__(self, stack: Stack, number: int) -> None:
        self.name = f"host-{number}"
        self._stack = stack
        self.space = f"cw{os.getpid()}-{number}"
        self._cable = f"cw{os.getpid() % 100_000}h{number}"
        self.here, self.there = (f"{NETWORK}.{number}.{end}" for end in (1, 2))
        self._ends = ((("-n", self.space), "eth0"), ((), self._cable))
        self._link: Link | None = None
        self._agent: subprocess.Popen[bytes] | None = None

    @property
    def link(self) -> Link:
        """What carries between its end of the cable and the broker; there is one once it has started."""
        assert self._link is not None
        return self._link

    def lay(self) -> None:
        """Make the namespace, and lay the cable."""
        _ip("netns", "add", self.space)
        _ip("link", "add", self._cable, "type", "veth", "peer", "name", "eth0", "netns", self.space)
        _ip("addr", "add", f"{self.here}/30", "dev", self._cable)
        _ip("link", "set", self._cable, "up")
        for device in ("lo", "eth0"):
            _ip("-n", self.space, "link", "set", device, "up")
        _ip("-n", self.space, "addr", "add", f"{self.there}/30", "dev", "eth0")

    def start(self) -> None:
        """Lay the cable, register the server and start its agent."""
        self.lay()
        door = socket.socket()
        door.bind((self.here, 0))
        var_dir = self._stack.var_dir
        self._link = Link(door, socket_path(var_dir))
        password = (var_dir / "redis" / "password").read_text().strip()
        own = f"unix://:{password}@{socket_path(var_dir)}"
        seen = f"redis://:{password}@{self.here}:{door.getsockname()[1]}/0"
        config = var_dir / "agents" / f"{self.name}.json"
        environ = {**os.environ, **self._stack.environment, "VAR_DIR": str(var_dir)}
        size = ("--cpu-slots", "2", "--cpu-ids", "0,1", "--memory-gib", "2", "--warm-processes", "0")
        command = [sys.executable, "manage.py", "add_server", self.name, "--config", str(config), *size]
        subprocess.run(
            [*command, "--redis-url", seen],
            cwd=ROOT,
            env={**environ, "REDIS_URL": own},
            check=True,
            capture_output=True,
        )
        assert json.loads(config.read_text())["redis_url"].startswith("redis://")
        python = (sys.executable, "-m")
        kept = (*python, "clusterweb.keep", "--", *python, "agents")
        with self._stack.log.open("ab") as log:
            self._agent = subprocess.Popen(
                ["ip", "netns", "exec", self.space, *kept],
                cwd=ROOT, env={**environ, "AGENT_CONFIG": str(config)}, stdout=log, stderr=log,
            )  # fmt: skip

    def part(self) -> None:
        """Pull the cable: nothing arrives any more, and neither end is told."""
        _ip("link", "set", self._cable, "down")

    def join(self) -> None:
        """Plug it in again."""
        _ip("link", "set", self._cable, "up")

    def lose(self, way: str, *, frac: float) -> None:
        """Lose so many of the packets, in both directions; neither end is told."""
        for space, device in self._ends:
            for command in WAYS[way](device, frac):
                _tc(*space, *command)

    def lose_none(self, way: str) -> None:
        """Let every packet arrive again."""
        for space, device in self._ends:
            _tc(*space, "qdisc", "del", "dev", device, way)

    def destroy(self) -> None:
        """Take everything away; the jobs on it are the product's to end."""
        if self._agent is not None:
            self._agent.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._agent.wait(20)
            self._agent.kill()
        if self._link is not None:
            self._link.stop()
        for undo in (("link", "del", self._cable), ("netns", "del", self.space)):
            with contextlib.suppress(subprocess.CalledProcessError):
                _ip(*undo)
