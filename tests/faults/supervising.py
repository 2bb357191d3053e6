"""A supervisor's process: the real state machine, turned a few times a second, with a simulated job under it."""

import json
import signal
from typing import TYPE_CHECKING

from agents.core import supervision_events as ev
from agents.core.records import (
    CONTROL_FILE,
    LAUNCH_FILE,
    REQUEST_FILE,
    STATE_FILE,
    Control,
    Launch,
    encode,
    ended_unsupervised,
)
from agents.core.supervision import Supervision
from agents.files.job_hold import Hold
from agents.protocol.errors import Malformed
from agents.protocol.job_secret import secrets_read
from agents.protocol.ports import ProcessIdentity
from tests.faults.training import Trainer
from tests.faults.virtual import Violation

if TYPE_CHECKING:
    from tests.faults.machine import Machine

TURN_S = 0.5
SECRET = "canary-0123456789"  # of the jobs that name one
MEASURE_S = 2.0


class SimSupervisor:
    """One attempt's supervisor, from fork to end."""

    def __init__(self, *, machine: "Machine", identity: ProcessIdentity, attempt_id: str, handed: bytes = b"") -> None:
        self.identity, self.attempt_id = identity, attempt_id
        self._handed = handed
        self.trainer: Trainer | None = None
        self._machine = machine
        self._core: Supervision | None = None
        self._launch: Launch | None = None
        self._control_seen: bytes | None = None
        self._is_exit_seen = self._is_finished = self._is_state_due = self._is_dead = False
        self._measured_s = 0.0

    def main(self) -> None:
        """Claim the attempt and begin."""
        if self._is_dead:
            return
        machine = self._machine
        content = machine.shared.get((self.attempt_id, LAUNCH_FILE))
        try:
            self._launch = Launch.parse(content or b"")
        except Malformed:
            self._leave()
            return
        if self._launch.order.sealed and not self._has_secrets():
            self._end_without_secrets()
            return
        self._core = Supervision(launch=self._launch, supervisor=self.identity, clock=machine.clock)
        self._look_at_control()
        if (self.attempt_id, STATE_FILE) in machine.shared or machine.is_disk_full:
            self._leave()
            return
        machine.shared[self.attempt_id, STATE_FILE] = encode(self._core.state)
        self._handle(ev.Begin())
        self._turns()

    def _has_secrets(self) -> bool:
        secrets = secrets_read(self._handed)
        if secrets is not None and [secret.value for secret in secrets] != [SECRET]:
            raise Violation("X1", f"{self.attempt_id} was handed {len(secrets)} secrets, or other ones")
        return secrets is not None

    def _end_without_secrets(self) -> None:
        machine, key = self._machine, (self.attempt_id, STATE_FILE)
        if key not in machine.shared and not machine.is_disk_full:
            state = ended_unsupervised(attempt_id=self.attempt_id, cause="launch_failed", detail="no secrets")
            machine.shared[key] = encode(state)
        self._leave()

    def die(self) -> None:
        """Be killed: the trainer goes with us, without a word."""
        self._is_dead = True
        if self.trainer is not None:
            self.trainer.signal(signal.SIGKILL)

    def _leave(self) -> None:
        self._is_dead = True
        self._machine.supervisors.pop(self.identity.pid, None)

    def _turns(self) -> None:
        if not self._is_dead:
            self.turn()
            self._machine.time.after(TURN_S, self._turns)

    def turn(self) -> None:
        """Bring in all that happened since the last turn."""
        core = self._core
        if self._is_dead or core is None:
            return
        if not self._is_finished:
            self._look_at_control()
            if self.trainer is not None and self._is_taken():
                self._handle(ev.DirectoryTaken())
            self._read_trainer()
            if self._machine.time.now_s - self._measured_s >= MEASURE_S:
                self._measured_s = self._machine.time.now_s
                self._measure()
            self._handle(ev.Tick())
        if self._is_state_due:
            self._write_state()
        if self._is_finished and not self._is_state_due:
            self._leave()

    def _look_at_control(self) -> None:
        content = self._machine.shared.get((self.attempt_id, CONTROL_FILE))
        if content != self._control_seen:
            self._control_seen = content
            control = Control.parse(content)
            if control is not None:
                self._handle(ev.ControlChanged(control=control))

    def _read_trainer(self) -> None:
        trainer = self.trainer
        if trainer is None:
            return
        if not self._is_exit_seen:
            for line in trainer.advance():
                self._handle(ev.JobReported(line=line))
            if trainer.exit is not None:
                self._is_exit_seen = True
                self._handle(ev.ChildExited(exit=trainer.exit))
        if self._is_exit_seen and trainer.is_gone():
            self._handle(ev.NoneLeft())

    def _measure(self) -> None:
        if self.trainer is not None and not self._is_exit_seen:
            self._handle(
                ev.UsageSampled(cpu_frac=0.5, disk_bytes=0, is_disk_full=False, log_bytes=10, dropped_log_bytes=0)
            )

    def _handle(self, event: ev.Event) -> None:
        assert self._core is not None
        for command in self._core.handle(event):
            match command:
                case ev.StartChild():
                    self._start()
                case ev.WriteRequest():
                    self._write_request(command)
                case ev.Signal():
                    self._signal(command.number)
                case ev.WriteState():
                    self._write_state()
                case ev.ClearTree():
                    if self.trainer is not None:
                        self.trainer.signal(signal.SIGKILL)
                    self._handle(ev.TreeGone())
                case ev.Finish():
                    self._is_finished = True
                case ev.Journal():
                    pass  # the witness sees the processes themselves

    def _start(self) -> None:
        machine = self._machine
        assert self._launch is not None
        if machine.is_disk_full:
            self._handle(ev.ChildFailed(cause="launch_failed", detail="The job could not be set up: no space."))
            return
        self._marks().add(self._hold().mark)
        if self._is_taken():
            self._handle(ev.ChildFailed(cause="launch_failed", detail="A later attempt of the job has begun."))
            return
        assert self._launch is not None
        if machine.builds and (missing := machine.builds.begins(self._launch)):
            self._handle(ev.ChildFailed(cause="launch_failed", detail=missing))
            return
        identity = machine.new_pid()
        self.trainer = Trainer(
            launch=self._launch,
            identity=identity,
            machine=machine.name,
            shared=machine.shared,
            witness=machine.witness,
            trace=machine.trace,
            now_s=lambda: machine.time.now_s,
        )
        self._handle(ev.ChildStarted(identity=identity))

    def _hold(self) -> Hold:
        assert self._launch is not None
        return Hold(self._launch.epoch, self._launch.order.number)

    def _marks(self) -> set[str]:
        assert self._launch is not None
        return self._machine.marks.setdefault(self._launch.order.job_id, set())

    def _is_taken(self) -> bool:
        return self._hold().is_over(self._marks())

    def _signal(self, number: int) -> None:
        if self.trainer is None:
            return
        self.trainer.signal(number)
        if number == signal.SIGKILL:
            self._machine.time.after(0.01, self.turn)

    def _write_request(self, command: ev.WriteRequest) -> None:
        if not self._machine.is_disk_full:
            content = json.dumps({"id": command.number, "request": command.request}).encode()
            self._machine.shared[self.attempt_id, REQUEST_FILE] = content

    def _write_state(self) -> None:
        assert self._core is not None
        self._is_state_due = self._machine.is_disk_full
        if not self._is_state_due:
            self._machine.shared[self.attempt_id, STATE_FILE] = encode(self._core.state)
