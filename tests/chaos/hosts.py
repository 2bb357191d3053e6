"""Hosts of their own in network namespaces: an agent in each, and a cable that may be pulled. Needs root."""

import contextlib
import json
import os
import socket
import subprocess
import sys

from clusterweb.config.broker import socket_path
from tests.chaos.links import Link
from tests.support.e2e.stack import ROOT, Stack

COUNT = 3
NETWORK = "10.213"


def can_be_made() -> bool:
    """Return whether namespaces may be made here."""
    name = f"cw{os.getpid()}"
    try:
        made = subprocess.run(["ip", "netns", "add", name], capture_output=True).returncode == 0
    except FileNotFoundError:
        return False
    if made:
        _ip("netns", "del", name)
    return made


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


class Host:
    """One namespace with a cable to ours, at whose end the broker answers; ``start`` begins an agent in it."""

    def __init__(self, stack: Stack, number: int) -> None:
        self.name = f"host-{number}"
        self._stack = stack
        self._space = f"cw{os.getpid()}-{number}"
        self._cable = f"cw{os.getpid() % 100_000}h{number}"
        self._here, self._there = (f"{NETWORK}.{number}.{end}" for end in (1, 2))
        self._link: Link | None = None
        self._agent: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Lay the cable, register the server and start its agent."""
        _ip("netns", "add", self._space)
        _ip("link", "add", self._cable, "type", "veth", "peer", "name", "eth0", "netns", self._space)
        _ip("addr", "add", f"{self._here}/30", "dev", self._cable)
        _ip("link", "set", self._cable, "up")
        for device in ("lo", "eth0"):
            _ip("-n", self._space, "link", "set", device, "up")
        _ip("-n", self._space, "addr", "add", f"{self._there}/30", "dev", "eth0")
        door = socket.socket()
        door.bind((self._here, 0))
        var_dir = self._stack.var_dir
        self._link = Link(door, socket_path(var_dir))
        password = (var_dir / "redis" / "password").read_text().strip()
        own = f"unix://:{password}@{socket_path(var_dir)}"
        seen = f"redis://:{password}@{self._here}:{door.getsockname()[1]}/0"
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
                ["ip", "netns", "exec", self._space, *kept],
                cwd=ROOT, env={**environ, "AGENT_CONFIG": str(config)}, stdout=log, stderr=log,
            )  # fmt: skip

    def part(self) -> None:
        """Pull the cable: nothing arrives any more, and neither end is told."""
        _ip("link", "set", self._cable, "down")

    def join(self) -> None:
        """Plug it in again."""
        _ip("link", "set", self._cable, "up")

    def destroy(self) -> None:
        """Take everything away; the jobs on it are the product's to end."""
        if self._agent is not None:
            self._agent.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._agent.wait(20)
            self._agent.kill()
        if self._link is not None:
            self._link.stop()
        for undo in (("link", "del", self._cable), ("netns", "del", self._space)):
            with contextlib.suppress(subprocess.CalledProcessError):
                _ip(*undo)
