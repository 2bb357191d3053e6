"""Control groups: which one is the agent's, and what is written where. The kernel's files are plain files here."""

import os
from pathlib import Path

import pytest

from agents.host.cgroup import HEADROOM, AttemptGroup, groups_of_host, own_group
from agents.protocol.grant import Grant

MOUNTS = """\
24 1 0:22 / /proc rw,nosuid - proc proc rw
31 24 0:27 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate
"""
HYBRID = """\
24 1 0:22 / /proc rw - proc proc rw
30 24 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
31 24 0:27 / /sys/fs/cgroup/unified rw shared:9 - cgroup2 cgroup2 rw
"""


@pytest.mark.parametrize(
    ("group", "mounts", "found"),
    [
        ("0::/system.slice/agent.service\n", MOUNTS, ("/sys/fs/cgroup", "/system.slice/agent.service")),
        ("4:memory:/jobs\n0::/\n", HYBRID, ("/sys/fs/cgroup/unified", "/")),
        ("4:memory:/jobs\n", HYBRID, ("", "")),
        ("0::/\n", "24 1 0:22 / /proc rw - proc proc rw\n", ("", "")),
    ],
)
def test_own_group_is_found(group: str, mounts: str, found: tuple[str, str]) -> None:
    """Under systemd, beside groups of version 1, without any."""
    assert own_group(group, mounts) == found


class Kernel:
    """Files as the kernel has them, below a directory."""

    def __init__(self, directory: Path, *, path: str, controllers: str) -> None:
        self.top, self.proc = directory / "cgroup", directory / "proc"
        self.root = self.top / path.removesuffix("/agent").strip("/")
        (self.root / "agent").mkdir(parents=True)
        self.proc.mkdir()
        (self.proc / "cgroup").write_text(f"0::{path}\n")
        (self.proc / "mountinfo").write_text(f"31 24 0:27 / {self.top} rw - cgroup2 cgroup2 rw\n")
        for name, content in (("cgroup.controllers", controllers), ("cgroup.subtree_control", controllers)):
            (self.root / name).write_text(content)
        (self.root / "agent" / "cgroup.kill").touch()

    def found(self) -> tuple[str, frozenset[str]]:
        """Return what the agent finds."""
        return groups_of_host(proc=str(self.proc))


def test_root_of_a_container_is_the_agents(tmp_path: Path) -> None:
    """Nothing else is to be seen there; controllers that we have no use for are left alone."""
    kernel = Kernel(tmp_path, path="/", controllers="cpuset io memory pids\n")

    assert kernel.found() == (str(kernel.root), frozenset({"cpuset", "memory", "pids"}))


def test_group_that_is_nobodys_gift_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root could write to it, but systemd keeps it for another service."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    kernel = Kernel(tmp_path, path="/user.slice/session-1.scope", controllers="memory pids\n")

    assert kernel.found() == ("", frozenset())


@pytest.mark.parametrize("path", ["/system.slice/agent.service", "/system.slice/agent.service/agent"])
def test_group_that_systemd_delegates_is_the_agents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    """Where it begins in the group itself, and where systemd has made one inside it for the agent."""
    monkeypatch.setattr(os, "listxattr", lambda _: ["user.delegate"])
    kernel = Kernel(tmp_path, path=path, controllers="memory pids\n")

    assert kernel.found() == (str(kernel.root), frozenset({"memory", "pids"}))


def test_kernel_without_the_means_is_not_used(tmp_path: Path) -> None:
    """Before Linux 5.14 a group cannot be killed at once."""
    kernel = Kernel(tmp_path, path="/", controllers="memory\n")
    (kernel.root / "agent" / "cgroup.kill").unlink()

    assert kernel.found() == ("", frozenset())


def test_limits_are_written_where_the_kernel_has_them(tmp_path: Path) -> None:
    """Without a controller its files are not there, and nothing is made in their place."""
    (tmp_path / "one").mkdir()
    for name in ("memory.max", "memory.oom.group", "cgroup.procs"):
        (tmp_path / "one" / name).touch()
    group = AttemptGroup(str(tmp_path), "one")
    group.hold(memory_bytes=1_000)
    group.keep_on((3, 1))
    group.add(42)

    files = {path.name: path.read_text() for path in (tmp_path / "one").iterdir()}
    assert files == {"memory.max": str(int(1_000 * HEADROOM)), "memory.oom.group": "1", "cgroup.procs": "42"}


def test_what_the_kernel_killed_is_counted(tmp_path: Path) -> None:
    """Kills alone, not every time that the limit was touched."""
    group = AttemptGroup(str(tmp_path), "one")
    assert group.ooms() == 0

    (tmp_path / "one" / "memory.events").write_text("low 0\nhigh 0\nmax 31\noom 2\noom_kill 3\noom_group_kill 1\n")

    assert group.ooms() == 3


def test_job_that_is_measured_may_use_idle_cores_as_well() -> None:
    """Else it is kept on its own; a job that is kept on none is left alone."""
    own = Grant(num_cpus=2, memory_bytes=0, cores=(0, 1), idle_cores=(2, 3))
    measured = Grant(num_cpus=2, memory_bytes=0, cores=(0, 1), idle_cores=(2, 3), measure_above=0)
    free = Grant(num_cpus=2, memory_bytes=0, cores=(), idle_cores=(2, 3), measure_above=0)

    assert [grant.cores_at_most for grant in (own, measured, free)] == [(0, 1), (0, 1, 2, 3), ()]
