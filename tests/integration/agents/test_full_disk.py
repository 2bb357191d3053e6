"""A disk without room: the supervisor lives, the end is told, and the agent goes on."""

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.agents.server import AgentServer, script, wait_for, wanted

FILL = """
import os, time
def fill():
    try:
        with open("big", "ab", buffering=0) as file:
            while True: file.write(b"x" * 65536)
    except OSError: pass
fill()
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[AgentServer]:
    """A server whose attempts lie on a file system of eight megabytes."""
    shared = tmp_path / "shared"
    shared.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(shared)], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("a small file system can be mounted by root only")
    server = AgentServer(tmp_path)
    try:
        server.start()
        yield server
    finally:
        server.end()
        subprocess.run(["umount", "-l", str(shared)], check=True)


def test_job_that_fills_the_disk_ends_as_out_of_disk(server: AgentServer) -> None:
    """Its failure is explained, and its last words may be missing but not its end."""
    order = wanted(script(FILL + "print('x' * 100_000, flush=True); time.sleep(2); raise SystemExit(1)"), disk_bytes=0)
    server.send(order)
    report = server.wait_phase(order, "ended")

    assert (report.end_cause, report.exit_code) == ("out_of_disk", 1)


def test_launch_on_a_full_disk_is_told_and_the_next_one_works(server: AgentServer) -> None:
    """What cannot be prepared is no reason to die; room again means work again."""
    filler = server.config.shared_dir / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * 4096)
    first = wanted(script("pass"))
    server.send(first)
    report = server.wait_phase(first, "ended")
    filler.unlink()
    second = wanted(script("print('room')"))
    server.send(second)
    later = server.wait_phase(second, "ended")

    assert report.end_cause == "launch_failed"
    assert "No space left" in report.end_detail
    assert later.end_cause == "completed"


def test_completed_job_on_a_full_disk_is_completed(server: AgentServer) -> None:
    """The last state is written over the one before it."""
    order = wanted(script(FILL + "time.sleep(1.5)"), disk_bytes=0)
    server.send(order)
    server.wait_phase(order, "running")
    report = server.wait_phase(order, "ended")
    wait_for("its end on disk", lambda: server.state(order))
    state = server.state(order)

    assert report.end_cause == "completed"
    assert state is not None
    assert state.report.phase == "ended"
