"""What runs under faults have found, in small: each of these was a violation once."""

import signal

from agents.core import supervision_events as ev
from agents.core.records import Control, Launch
from agents.core.supervision import Supervision
from agents.protocol.messages import AttemptWanted
from agents.protocol.ports import ProcessIdentity
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
