"""One attempt under the real ``Supervision``, on a clock moved by hand."""

from dataclasses import replace
from typing import Any

from agents.core import supervision_events as ev
from agents.core.ending import Exit
from agents.core.records import Control, Launch, WrittenLine
from agents.core.supervision import Supervision
from agents.protocol.desired_state import Wanted
from agents.protocol.ports import ProcessIdentity
from agents.protocol.server_report import AttemptReport
from tests.support.agents.fakes import HandClock
from tests.support.agents.server import SERVER_ID, wanted

ME = ProcessIdentity(boot_id="boot", pid=10, start_ticks=100)
TRAINER = ProcessIdentity(boot_id="boot", pid=11, start_ticks=110)


class Attempt:
    """One attempt under supervision, and all that was asked for, with times since its start."""

    def __init__(self, *, lease_s: float = 1e6, wish: Wanted = "run", **order: Any) -> None:  # fields of an order
        self.clock = HandClock()
        self.began_s = self.clock.mono_s()
        self.control = Control(
            wanted=wish, generation=1, grace_s=10.0, lease_until_s=self.began_s + lease_s, lease_margin_s=5.0
        )
        launch = Launch(
            server_id=SERVER_ID,
            epoch=1,
            order=wanted(("train",), grace_s=10.0, **order),
            control=self.control,
            cpu_ids=(0,),
            visible_devices=(),
            journal_dir="/journal",
        )
        self.core = Supervision(launch=launch, supervisor=ME, clock=self.clock)
        self.asked: list[tuple[float, ev.Command]] = []
        self.handle(ev.Begin())

    def started(self) -> "Attempt":
        """Let the training process start."""
        self.handle(ev.ChildStarted(identity=TRAINER))
        return self

    def with_runtime(self) -> "Attempt":
        """Let the job report that it uses the runtime."""
        self.handle(ev.JobReported(line=WrittenLine(event="started", step=7, total_steps=100)))
        return self

    def handle(self, event: ev.Event) -> None:
        """Bring in one event."""
        at_s = round(self.clock.mono_s() - self.began_s, 3)
        self.asked += [(at_s, command) for command in self.core.handle(event)]

    def want(self, wish: Wanted, **changes: Any) -> None:  # fields of Control
        """Let the agent change its mind."""
        self.control = replace(self.control, wanted=wish, **changes)
        self.handle(ev.ControlChanged(control=self.control))

    def run(self, seconds: float) -> None:
        """Let time go by, looking ten times a second."""
        for _ in range(round(seconds * 10)):
            self.clock.advance(0.1)
            self.handle(ev.Tick())

    def signals(self, *numbers: int) -> list[tuple[float, int]]:
        """Return the signals that were sent, of the given numbers, with their times rounded to the second."""
        return [
            (round(at_s), command.number)
            for at_s, command in self.asked
            if isinstance(command, ev.Signal) and (not numbers or command.number in numbers)
        ]

    def requests(self) -> list[tuple[float, str]]:
        """Return the requests to the job, with times."""
        return [(round(at_s), c.request) for at_s, c in self.asked if isinstance(c, ev.WriteRequest)]

    def cleared(self) -> list[float]:
        """Return when what was left was killed, or none was left, rounded to the second."""
        return [round(at_s) for at_s, command in self.asked if isinstance(command, ev.ClearTree)]

    def journal(self) -> list[str]:
        """Return the journal's events."""
        return [c.event for _, c in self.asked if isinstance(c, ev.Journal)]

    def exit(self, *, code: int | None = None, number: int | None = None) -> AttemptReport:
        """Let the training process end as the last of its attempt, and return the last report."""
        self.handle(ev.ChildExited(exit=Exit(code=code, signal=number)))
        self.handle(ev.NoneLeft())
        self.handle(ev.TreeGone())
        return self.report

    @property
    def report(self) -> AttemptReport:
        """Return what is reported now."""
        return self.core.state.report


def measured(**changes: Any) -> ev.UsageSampled:  # fields of UsageSampled
    """Return a quiet second, with changes."""
    return replace(
        ev.UsageSampled(cpu_frac=0.1, disk_bytes=0, is_disk_full=False, log_bytes=0, dropped_log_bytes=0), **changes
    )


def progress(step: int) -> ev.JobReported:
    """Return a report of progress."""
    return ev.JobReported(line=WrittenLine(event="progress", step=step, total_steps=100))
