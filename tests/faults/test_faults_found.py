"""What runs under faults have found, in small: each of these was a violation once."""

import hashlib
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from agents.core import supervision_events as ev
from agents.core.records import Control, Launch
from agents.core.supervision import Supervision
from agents.environments import build
from agents.environments.store import MADE
from agents.files import code_unpack
from agents.files.atomic import open_directory
from agents.protocol.desired_state import AttemptWanted
from agents.protocol.ports import ProcessIdentity
from tests.support.agents.code import store_put
from tests.support.live.ports import ManualClock

ULID_A = "01KK4BCTN00000000000000004"
ME = ProcessIdentity(boot_id="b", pid=1, start_ticks=1)


def _launch(until_s: float) -> Launch:
    order = AttemptWanted(
        attempt_id=ULID_A,
        job_id=ULID_A,
        wanted="run",
        generation=1,
        gpu_indexes=(0,),
        gpu_uuids=("cpu-slot-0",),
        cpu_ids=(0,),
        memory_bytes=0,
        disk_bytes=0,
        log_bytes=0,
        command=("true",),
        env={},
        files={},
        grace_s=10.0,
        max_duration_s=None,
        resume_attempt_id="",
        resume_name="",
    )
    control = Control(wanted="run", generation=1, grace_s=10.0, lease_until_s=until_s, lease_margin_s=1.0)
    return Launch(
        server_id="s00000000001",
        epoch=1,
        order=order,
        control=control,
        cpu_ids=(),
        visible_devices=(),
        journal_dir="",
    )


def test_job_out_of_its_lease_is_killed_without_being_continued() -> None:
    """P2: a frozen job of a server that was given up must not run another instant, not even to take TERM."""
    clock = ManualClock()
    until_s = clock.mono_s() + 30
    supervision = Supervision(launch=_launch(until_s), supervisor=ME, clock=clock)
    supervision.handle(ev.Begin())
    supervision.handle(ev.ChildStarted(identity=ME))
    clock.advance(31)
    frozen = supervision.handle(ev.Tick())
    control = Control(wanted="cancel", generation=2, grace_s=10.0, lease_until_s=until_s, lease_margin_s=1.0)
    killed = supervision.handle(ev.ControlChanged(control=control))

    assert [c.number for c in frozen if isinstance(c, ev.Signal)] == [signal.SIGSTOP]
    assert [c.number for c in killed if isinstance(c, ev.Signal)] == [signal.SIGKILL]


def test_environment_is_written_through_before_it_counts_as_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E4: a power failure after a build left its word and empty packages, for every job that came later."""
    was_said: list[bool] = []
    monkeypatch.setattr(build, "file_system_sync", lambda _: was_said.append((tmp_path / MADE).exists()))
    monkeypatch.setattr(build.Build, "_steps", lambda _: None)
    order: dict[str, Any] = {"digest": hashlib.sha256().hexdigest(), "ask": 1, "uid": None, "files": {}}
    fd = open_directory(str(tmp_path))
    build.Build(tmp_path, {**order, "cache": str(tmp_path / "cache-1")}, fd=fd).run()
    os.close(fd)

    assert was_said == [False]
    assert (tmp_path / MADE).exists()


def test_sent_folder_is_written_through_before_it_counts_as_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U1: a power failure after an unpacking left empty files, in which every later attempt started."""
    found: list[bytes] = []
    monkeypatch.setattr(code_unpack, "file_system_sync", lambda _: found.append((tmp_path / "train.py").read_bytes()))
    digest = store_put(tmp_path / "shared", {"train.py": b"pass\n"})
    shared_fd, root_fd = open_directory(str(tmp_path / "shared")), open_directory(str(tmp_path))
    code_unpack.code_unpack(shared_fd, root_fd, digest=digest, says=lambda _: None)
    os.close(shared_fd)
    os.close(root_fd)

    assert found == [b"pass\n"]
