"""A training process that trains nothing: it counts steps, writes checkpoints, obeys or does not."""

import json
import signal
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from agents.core.ending import Exit
from agents.core.records import EXIT_STOPPED, REQUEST_FILE, Launch, WrittenLine
from agents.protocol.ports import ProcessIdentity
from tests.faults.virtual import Trace
from tests.faults.witness import TrainingProcess, Witness
from tests.support.agents.odd_lines import odd_line

CHECKPOINT_EVERY = 7  # steps
MEASURED_AFTER = 9  # steps of its own: what it says then of its speed
LIES_MOST = 10  # a turn of its supervisor
SAVES_S = 1.5  # after its signal: what a script without the runtime has started and waited for
BOUNDARY_S = 0.4  # a mini-batch: how soon a request is seen

# (attempt id, file name) to content, for all machines: the shared directory.
SharedFiles = dict[tuple[str, str], bytes]
# Job id to the marks beside its directory, likewise.
JobMarks = dict[str, set[str]]


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What a job does, read from its command.

    ``sim <steps> <exit code> <runtime|plain> <stubborn|tame> <liar|honest>``; a liar reports odd things as well.
    """

    total_steps: int
    exit_code: int
    uses_runtime: bool
    is_stubborn: bool
    lies: bool

    @staticmethod
    def of(command: tuple[str, ...]) -> "Behaviour":
        """Read it."""
        return Behaviour(
            int(command[1]), int(command[2]), command[3] == "runtime", command[4] == "stubborn", command[5] == "liar"
        )


class Trainer:
    """One training process."""

    def __init__(
        self,
        *,
        launch: Launch,
        identity: ProcessIdentity,
        machine: str,
        shared: SharedFiles,
        witness: Witness,
        trace: Trace,
        now_s: Callable[[], float],
    ) -> None:
        self.identity = identity
        self.exit: Exit | None = None
        self._trace, self._rng = trace, Random(launch.order.attempt_id)
        self._launch, self._shared, self._witness, self._now_s = launch, shared, witness, now_s
        self._one = TrainingProcess(
            process=identity,
            attempt_id=launch.order.attempt_id,
            job_id=launch.order.job_id,
            machine=machine,
            gpus=launch.order.gpu_indexes,
        )
        self._is_stopped = False
        self._parked_for: int | None = None  # the request by which it left its devices, while it is off them
        self._term_at_s: float | None = None
        self._child_until_s: float | None = None  # once the command has ended and left a child that saves
        self._last_s = now_s()
        self._train_s = 0.0
        self._saved: int | None = None
        self._is_measured = False
        self.behaviour = Behaviour.of(launch.order.command)
        self.first_step = self._resume_step()
        self._lines: list[WrittenLine] = []
        if self.behaviour.uses_runtime:
            self._say("started", step=self.first_step, total_steps=self.behaviour.total_steps)
        self._witness.begins(self._one)
        self._witness.runs(self._one)

    @property
    def step(self) -> int:
        """Return the step it is at: two a second."""
        return min(self.behaviour.total_steps, self.first_step + int(self._train_s * 2))

    def _resume_step(self) -> int:
        order = self._launch.order
        content = self._shared.get((order.resume_attempt_id, f"checkpoints/{order.resume_name}"))
        if content is None:
            return 0
        job_id, step = content.decode().split()
        assert job_id == order.job_id, f"checkpoint of {job_id} given to {order.job_id}"
        return int(step)

    def _lie(self) -> None:
        """Report what no runtime of ours would write; what is no report at all is dropped where it is read."""
        for _ in range(self._rng.randrange(LIES_MOST)):
            self._trace.count("hostile_line")
            line = WrittenLine.parse(odd_line(self._rng))
            if line is not None and line.event != "parked":  # GPUs are not taken from a job that says it left them
                self._lines.append(line)

    def _say(self, event: str, **fields: object) -> None:
        line = WrittenLine.parse(json.dumps({"event": event, **fields}).encode())
        assert line is not None
        self._lines.append(line)

    def advance(self) -> list[WrittenLine]:
        """Let it work until now; return the lines that it has reported since."""
        now_s = self._now_s()
        elapsed_s, self._last_s = now_s - self._last_s, now_s
        if self.exit is None and not self._is_stopped:
            if self._parked_for is None:
                self._train_s += elapsed_s
            self._work(now_s)
        lines, self._lines = self._lines, []
        return lines

    def _work(self, now_s: float) -> None:
        behaviour = self.behaviour
        self._witness.writes(self._one)  # as a script does that saves to ./out
        if behaviour.uses_runtime:
            self._keep_place()
            # What is odd is the last word of about every other turn: a true number in the same one would hide it.
            lies_last = self._rng.random() < 0.5
            if behaviour.lies and not lies_last:
                self._lie()
            self._say("progress", step=self.step, total_steps=behaviour.total_steps, loss=1.0, steps_per_s=2.0)
            if behaviour.lies and lies_last:
                self._lie()
            if self.step - self.first_step >= MEASURED_AFTER and not self._is_measured:
                self._is_measured = True
                self._say("measured", measured={"rates": [[1, 1.0], [2, 2.0]], "free_cores": 2, "took_s": 1.0})
            if self.step - (self._saved or self.first_step) >= CHECKPOINT_EVERY:
                self._save()
            if self._stop_is_asked(now_s):
                self._save()
                self._say("stopped", step=self.step)
                self._end(Exit(code=EXIT_STOPPED, signal=None), "stopped")
                return
        elif self._term_at_s is not None and not behaviour.is_stubborn:
            # As a shell does: it dies of the signal at once, and what it waited for saves.
            self.exit, self._child_until_s = Exit(code=None, signal=signal.SIGTERM), now_s + SAVES_S
            return
        if self._parked_for is None and self.step >= behaviour.total_steps:
            if behaviour.uses_runtime and behaviour.exit_code == 0:
                self._say("completed", step=self.step)
            self._end(Exit(code=behaviour.exit_code, signal=None), f"exit {behaviour.exit_code}")

    def _asked(self) -> tuple[int, str]:
        """Return number and kind of the newest request that it heeds."""
        content = self._shared.get((self._launch.order.attempt_id, REQUEST_FILE))
        if content is None or self.behaviour.is_stubborn:
            return 0, ""
        request = json.loads(content)
        return request["id"], request["request"]

    def _keep_place(self) -> None:
        """Leave the devices, or go on, as asked."""
        number, request = self._asked()
        if request == "park" and number != self._parked_for:
            if self._parked_for is None:
                self._witness.rests(self._one, "park")
            self._parked_for = number
            self._say("parked", request=number, step=self.step)
        elif request == "continue" and self._parked_for is not None:
            self._parked_for = None
            self._witness.runs(self._one)

    def _stop_is_asked(self, now_s: float) -> bool:
        if self.behaviour.is_stubborn:
            return False
        if self._term_at_s is not None and now_s - self._term_at_s >= BOUNDARY_S:
            return True
        return self._asked()[1] == "stop"

    def _save(self) -> None:
        step = self.step
        name = f"step-{step:06d}.pt"
        order = self._launch.order
        self._shared[order.attempt_id, f"checkpoints/{name}"] = f"{order.job_id} {step}".encode()
        self._saved = step
        self._say("checkpoint", name=name, step=step)

    def signal(self, number: int) -> None:
        """Take a signal."""
        if self.exit is not None:
            if number == signal.SIGKILL:
                self._end_child("kill")
            return
        self.advance_silently()
        if number == signal.SIGKILL:
            self._end(Exit(code=None, signal=signal.SIGKILL), "kill")
        elif number == signal.SIGSTOP and not self._is_stopped:
            self._is_stopped = True
            self._witness.rests(self._one, "stop")
        elif number == signal.SIGCONT and self._is_stopped:
            self._is_stopped = False
            if self._parked_for is None:
                self._witness.runs(self._one)
        elif number == signal.SIGTERM and self._term_at_s is None:
            self._term_at_s = self._now_s()

    def is_gone(self) -> bool:
        """Return whether no process of it is left."""
        if self._child_until_s is not None and self._now_s() >= self._child_until_s:
            self._end_child("saved")
        return self.exit is not None and self._child_until_s is None

    def _end_child(self, why: str) -> None:
        if self._child_until_s is not None:
            self._child_until_s = None
            self._witness.rests(self._one, why)

    def advance_silently(self) -> None:
        """Let it work until now; what it reports stays for the next reader."""
        lines = self.advance()
        self._lines = lines + self._lines

    def _end(self, how: Exit, why: str) -> None:
        self.exit = how
        self._witness.rests(self._one, why)
