"""The training script of a chaos run, and what its append-only log of steps proves. Reading is pure.

A line is ``<seconds since boot> <attempt> <word> <step>``: ``begin`` at the step that it resumed at, ``step`` when one
is trained, ``saved`` when the state of a checkpoint is taken. A process that is frozen or killed writes nothing more.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

SCRIPT = """
import os, sys, time
from agents.runtime import Run
total, step_s, path = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
attempt = os.environ["CLUSTERWEB_ATTEMPT_ID"]
log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
def note(word, step):
    os.write(log, f"{time.clock_gettime(time.CLOCK_BOOTTIME):.6f} {attempt} {word} {step}\\n".encode())
run = Run(total_steps=total, checkpoint_every_s=2.0)
run.resume()
note("begin", run.step)
@run.on_checkpoint
def capture():
    note("saved", run.step)
    return {"step": run.step}
for step in run.steps():
    time.sleep(step_s)
    note("step", step)
    run.report(loss=1.0 / (1 + step))
"""
# A checkpoint is sure to be whole, and told, when its job went on for so long after it, seconds.
SURE_AFTER_S = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a log."""

    at_s: float
    attempt: str
    word: str
    step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """What one job did.

    Attributes:
        attempts: How many of its attempts trained.
        steps: Steps trained, those trained again included.
        again: Of these, trained before.
        beyond: Of these, trained before although a checkpoint that was sure held them.
        missing: Steps that were never trained.
        overlaps: Times at which an attempt went on after a later one had begun, with both.
    """

    attempts: int
    steps: int
    again: int
    beyond: int
    missing: int
    overlaps: tuple[str, ...]


def read(text: str) -> list[Line]:
    """Return the lines of a log, by time; a line that was torn by a kill is left out."""
    lines = []
    for raw in text.splitlines():
        words = raw.split()
        if len(words) == 4 and words[3].isdigit():
            lines.append(Line(at_s=float(words[0]), attempt=words[1], word=words[2], step=int(words[3])))
    return sorted(lines, key=lambda line: line.at_s)


def judge(lines: Sequence[Line], *, total: int) -> Trained:
    """Return what a job's log proves."""
    order = list(dict.fromkeys(line.attempt for line in lines))
    seen: set[int] = set()
    again = beyond = 0
    sure = 0
    before: list[Line] = []
    for attempt in order:
        own = [line for line in lines if line.attempt == attempt]
        for line in own:
            if line.word == "step":
                again += line.step in seen
                beyond += line.step in seen and line.step < sure
                seen.add(line.step)
        before += own
        sure = max(
            [sure, *(one.step for one in own if one.word == "saved" and own[-1].at_s - one.at_s >= SURE_AFTER_S)]
        )
    return Trained(
        attempts=len(order),
        steps=sum(line.word == "step" for line in lines),
        again=again,
        beyond=beyond,
        missing=total - len(seen & set(range(total))),
        overlaps=tuple(_overlaps(lines, order)),
    )


def _overlaps(lines: Sequence[Line], order: Sequence[str]) -> list[str]:
    """Return where the lines of one attempt stand behind the first of a later one."""
    first = {attempt: next(line.at_s for line in lines if line.attempt == attempt) for attempt in order}
    last = {attempt: max(line.at_s for line in lines if line.attempt == attempt) for attempt in order}
    return [
        f"{earlier} until {last[earlier]:.2f}, {later} from {first[later]:.2f}"
        for earlier, later in pairwise(order)
        if last[earlier] >= first[later]
    ]
