"""A simulated server for demonstrations: speaks the agents' protocol, runs no process, computes nothing.

Its version begins with ``SIMULATED`` and its devices are called so. A job's simulated course is in its environment
(``SIMULATED_...``), so the scheduler treats it as any other job. Pure but for the transport.
"""

import hashlib
import json
import math
import platform
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agents.config import VERSION, AgentConfig
from agents.files.job_log import segment_name
from agents.protocol.desired_state import AttemptWanted, DesiredState
from agents.protocol.environments import EnvironmentReport
from agents.protocol.errors import ProtocolError
from agents.protocol.ports import Clock, ReportTransport
from agents.protocol.server_report import SIMULATED, AttemptPhase, AttemptReport, DeviceReport, ServerReport
from agents.protocol.signing import Stamp, seal, unseal

DEVICE_MODEL = "Simulated GPU"
DEVICE_BYTES = 80 * 2**30
# A job that says nothing of itself trains for ten minutes.
DEFAULT_STEPS, DEFAULT_STEPS_PER_S = 600.0, 1.0
# What the loss comes to at the best learning rate, and how much more at one a decade away: it grows by the square.
LEAST_LOSS, BEST_LEARNING_RATE, LOSS_BY_DECADE = 0.3, 0.003, 0.4
CHECKPOINT_EVERY_S = 600.0
ENDS = {"preempt": "preempted", "suspend": "suspended", "cancel": "cancelled"}


@dataclass(slots=True)
class SimulatedAttempt:
    """One simulated attempt and its progress."""

    phase: AttemptPhase = "starting"
    generation: int = 0
    run_s: float = 0.0
    first_step: float = 0.0
    step: float = 0.0
    checkpoint_step: int | None = None
    cause: str = ""
    exit_code: int | None = None
    detail: str = ""
    failure: str = ""
    failure_line: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """The simulated course of a job, read from its environment.

    That is: steps in all, their rate, how busy its devices are, the loss that it comes to, its failure.
    """

    steps: float
    steps_per_s: float
    gpu_frac: float
    final_loss: float
    fails_at_step: float | None
    failure: str
    failure_line: str

    @staticmethod
    def of(wanted: AttemptWanted) -> "Course":
        """Read it; what is missing or no number has a default."""
        fails = wanted.env.get("SIMULATED_FAILS_AT_STEP")
        learning_rate = _number(wanted.env.get("SIMULATED_LEARNING_RATE"), BEST_LEARNING_RATE)
        return Course(
            steps=_number(wanted.env.get("SIMULATED_STEPS"), DEFAULT_STEPS),
            steps_per_s=_number(wanted.env.get("SIMULATED_STEPS_PER_S"), DEFAULT_STEPS_PER_S),
            gpu_frac=min(1.0, _number(wanted.env.get("SIMULATED_GPU_FRAC"), 0.55 + 0.4 * chance(wanted.job_id))),
            final_loss=LEAST_LOSS + LOSS_BY_DECADE * math.log10(learning_rate / BEST_LEARNING_RATE) ** 2,
            fails_at_step=None if fails is None else _number(fails, DEFAULT_STEPS),
            failure=wanted.env.get("SIMULATED_FAILURE", ""),
            failure_line=wanted.env.get("SIMULATED_FAILURE_LINE", "")[:300],
        )

    def loss(self, job_id: str, step: float) -> float:
        """Return a loss that falls, with noise that is the same whenever it is asked for."""
        noise = chance(f"{job_id} {int(step)}") - 0.5
        return self.final_loss + 2.2 * math.exp(-4.0 * step / self.steps) * (1.0 + 0.1 * noise) + 0.02 * noise

    def left_s(self, step: float) -> float:
        """Return the seconds until it ends by itself, well or not."""
        fails = self.fails_at_step
        until = fails if fails is not None and fails > step else self.steps
        return max(0.0, (until - step) / self.steps_per_s)


def chance(text: str) -> float:
    """Return a number from 0 to 1 that is the same for the same text."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest()) / 2**32


def _number(text: str | None, default: float) -> float:
    try:
        value = float(text or "")
    except ValueError:
        return default
    return value if math.isfinite(value) and value > 0 else default


class SimulatedServer:
    """One simulated server; the caller lets time pass, hands in messages and triggers reports."""

    def __init__(
        self, config: AgentConfig, transport: ReportTransport, clock: Clock, *, says: Callable[[str, str], int]
    ) -> None:
        """Make a server; ``says`` writes a line into the log of an attempt and returns the bytes of that log."""
        self.server_id, self.num_devices = config.server_id, config.cpu_slots
        self._config, self._transport, self._clock, self._says = config, transport, clock, says
        self._stamp = Stamp(epoch=0, generation=0, sequence=0)
        self._sequence = 0
        self._has_obeyed = True
        self._environments: tuple[EnvironmentReport, ...] = ()  # ready at once, since nothing is computed
        self._orders: dict[str, AttemptWanted] = {}
        self._attempts: dict[str, SimulatedAttempt] = {}
        self._earlier: dict[str, SimulatedAttempt] = {}  # of before a restart, until a desired state names them
        self._log_bytes: dict[str, int] = {}

    def receive(self, message: str) -> bool:
        """Act on a desired state; False when it is not genuine or nothing new."""
        try:
            envelope = unseal(
                key=self._config.key,
                direction="desired",
                server=self.server_id,
                message=message,
                now_s=self._clock.now().timestamp(),
            )
            desired = DesiredState.parse(envelope.body)
        except ProtocolError:
            return False
        if envelope.stamp <= self._stamp:
            return False
        self._stamp, self._has_obeyed = envelope.stamp, True
        self._orders = {order.attempt_id: order for order in desired.attempts}
        self._environments = tuple(
            EnvironmentReport(digest=one.digest, ask=one.ask, state="ready") for one in desired.environments
        )
        known = self._earlier | self._attempts
        self._log_bytes = {pk: count for pk, count in self._log_bytes.items() if pk in self._orders}
        self._attempts = {pk: known.get(pk) or self._begun(order) for pk, order in self._orders.items()}
        self._earlier = {}
        for pk, attempt in self._attempts.items():
            self._obey(attempt, self._orders[pk])
        return True

    def _begun(self, order: AttemptWanted) -> SimulatedAttempt:
        saved = order.resume_name.removeprefix("step-").removesuffix(".pt")
        step = float(saved) if saved.isdecimal() else 0.0
        self._say(order.attempt_id, f"[simulated: no machine, nothing is computed; from step {step:.0f}]")
        return SimulatedAttempt(first_step=step, step=step)

    def _obey(self, attempt: SimulatedAttempt, order: AttemptWanted) -> None:
        attempt.generation = self._stamp.generation
        if attempt.phase == "ended":
            return
        if order.wanted in ENDS:
            if order.wanted != "cancel":
                attempt.checkpoint_step = int(attempt.step)
            attempt.phase, attempt.cause = "ended", ENDS[order.wanted]
            self._say(order.attempt_id, f"[simulated: asked to {order.wanted} at step {attempt.step:.0f}]")
        elif order.wanted == "park" and attempt.phase == "running":
            attempt.phase = "parked"
        elif order.wanted == "run" and attempt.phase == "parked":
            attempt.phase = "running"

    def work(self, seconds: float) -> bool:
        """Let time pass; return whether there is news: an attempt began or ended, or a message was obeyed."""
        moved, self._has_obeyed = self._has_obeyed, False
        for pk, attempt in self._attempts.items():
            order = self._orders[pk]
            if attempt.phase == "starting":
                attempt.phase, moved = "running", True
            elif attempt.phase == "running":
                self._train(order, attempt, seconds)
                moved |= attempt.phase != "running"
        return moved

    def _train(self, order: AttemptWanted, attempt: SimulatedAttempt, seconds: float) -> None:
        course = Course.of(order)
        left_s = course.left_s(attempt.step)
        passed_s = min(seconds, left_s)
        attempt.run_s += passed_s
        attempt.step += passed_s * course.steps_per_s
        if seconds < left_s:
            self._checkpoint(order, attempt, course)
            return
        attempt.phase, attempt.exit_code = "ended", 0
        if attempt.step >= course.steps:
            attempt.cause, attempt.checkpoint_step = "completed", int(course.steps)
        else:
            attempt.cause, attempt.exit_code = "exit_code", 1
            attempt.detail = "The command ended with exit code 1."
            attempt.failure, attempt.failure_line = course.failure, course.failure_line
        line = attempt.failure_line or f"completed at step {attempt.step:.0f}"
        self._say(order.attempt_id, f"step {attempt.step:.0f}  loss {course.loss(order.job_id, attempt.step):.4f}")
        self._say(order.attempt_id, line)

    def _checkpoint(self, order: AttemptWanted, attempt: SimulatedAttempt, course: Course) -> None:
        since_s = (attempt.step - (attempt.checkpoint_step or attempt.first_step)) / course.steps_per_s
        if since_s >= CHECKPOINT_EVERY_S:
            attempt.checkpoint_step = int(attempt.step)
            loss = course.loss(order.job_id, attempt.step)
            self._say(order.attempt_id, f"step {attempt.step:.0f}  loss {loss:.4f}  checkpoint")

    def _say(self, attempt_id: str, line: str) -> None:
        self._log_bytes[attempt_id] = self._says(attempt_id, line)

    def next_end_s(self) -> float:
        """Return the seconds until the first of its attempts ends by itself; infinity when none would."""
        running = [(pk, attempt) for pk, attempt in self._attempts.items() if attempt.phase in ("starting", "running")]
        return min((Course.of(self._orders[pk]).left_s(attempt.step) for pk, attempt in running), default=math.inf)

    def send(self) -> None:
        """Send a report. Raises ConnectionError when there is no broker."""
        now_s = self._clock.now().timestamp()
        self._sequence = max(self._sequence + 1, int(now_s * 1000))
        stamp = Stamp(epoch=self._stamp.epoch, generation=self._stamp.generation, sequence=self._sequence)
        body = self._report().to_json()
        self._transport.send_report(
            self.server_id,
            seal(key=self._config.key, direction="report", server=self.server_id, stamp=stamp, now_s=now_s, body=body),
        )

    def _report(self) -> ServerReport:
        used = self._used()
        return ServerReport(
            agent_version=f"{SIMULATED} {VERSION}",
            boot_id=SIMULATED,
            device_kind="gpu",
            isolation="none",
            num_cpus=len(self._config.cpu_ids),
            memory_bytes=self._config.memory_bytes,
            cpu_frac=sum(used.values()) / self.num_devices / 2,
            used_memory_bytes=int(self._config.memory_bytes * (0.05 + 0.5 * len(used) / self.num_devices)),
            devices=tuple(self._device(index, used.get(index)) for index in range(self.num_devices)),
            attempts=tuple(self._attempt_report(pk, attempt) for pk, attempt in sorted(self._attempts.items())),
            environments=self._environments,
            python=platform.python_version(),
        )

    def _used(self) -> dict[int, float]:
        """Return how busy each device in use is."""
        running = [self._orders[pk] for pk, attempt in self._attempts.items() if attempt.phase == "running"]
        return {index: Course.of(order).gpu_frac for order in running for index in order.gpu_indexes}

    def _device(self, index: int, used: float | None) -> DeviceReport:
        return DeviceReport(
            index=index,
            uuid=f"simulated-{self.server_id}-{index}",
            model=DEVICE_MODEL,
            memory_bytes=DEVICE_BYTES,
            healthy=True,
            utilization_frac=used or 0.0,
            used_memory_bytes=int(DEVICE_BYTES * (0.02 if used is None else 0.25 + 0.6 * used)),
            temperature_c=round(34.0 + 40.0 * (used or 0.0)),
        )

    def _attempt_report(self, pk: str, attempt: SimulatedAttempt) -> AttemptReport:
        order = self._orders[pk]
        course = Course.of(order)
        has_begun = attempt.phase != "starting"
        saved = attempt.checkpoint_step
        return AttemptReport(
            attempt_id=pk,
            phase=attempt.phase,
            generation=attempt.generation,
            pid=1 if has_begun else None,
            run_s=attempt.run_s,
            end_cause=attempt.cause,
            end_detail=attempt.detail,
            exit_code=attempt.exit_code,
            failure=attempt.failure,
            failure_line=attempt.failure_line,
            first_step=int(attempt.first_step) if has_begun else None,
            step=int(attempt.step) if has_begun else None,
            total_steps=int(course.steps) if has_begun else None,
            loss=course.loss(order.job_id, attempt.step) if has_begun else None,
            steps_per_s=course.steps_per_s if has_begun else None,
            # The first of ten epochs fills it.
            cached_frac=min(1.0, 10.0 * attempt.step / course.steps) if has_begun else None,
            checkpoint_name="" if saved is None else f"step-{saved:08d}.pt",
            checkpoint_step=saved,
            cpu_frac=course.gpu_frac * 0.8 if attempt.phase == "running" else None,
            memory_bytes=order.memory_bytes // 2 if has_begun else None,
            peak_memory_bytes=order.memory_bytes // 2 if has_begun else None,
            gpu_frac=course.gpu_frac if attempt.phase == "running" else None,
            log_bytes=self._log_bytes.get(pk, 0),
        )

    def kept(self) -> dict[str, Any]:
        """Return what it needs to go on after a restart, as JSON data."""
        return {
            "sequence": self._sequence,
            "attempts": {pk: asdict(attempt) for pk, attempt in (self._earlier | self._attempts).items()},
            "log_bytes": self._log_bytes,
        }

    def go_on(self, kept: str) -> None:
        """Go on from what an earlier run kept; its attempts are reported once a desired state names them."""
        data = json.loads(kept)
        self._sequence = data["sequence"]
        self._earlier = {pk: SimulatedAttempt(**columns) for pk, columns in data["attempts"].items()}
        self._log_bytes = dict(data["log_bytes"])


def log_line(shared_dir: Path) -> Callable[[str, str], int]:
    """Return what writes a line into the log of an attempt below the shared directory."""

    def says(attempt_id: str, line: str) -> int:
        directory = shared_dir / "attempts" / attempt_id
        directory.mkdir(parents=True, exist_ok=True)
        with (directory / segment_name(0)).open("a") as log:
            log.write(f"{line}\n")
            return log.tell()

    return says
