"""What a job has kept of its work, and the sentence about it that pages, REST, command and the product's end share."""

from dataclasses import dataclass
from typing import Literal

# checkpoints: the job writes checkpoints to resume from, or uses the runtime, which asks for them. unknown: it has run
# and reported none, so whether it saves anything by itself is not known.
KeepsWork = Literal["checkpoints", "unknown"]
KEEPS_WORK: tuple[KeepsWork, ...] = ("checkpoints", "unknown")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What is known of a job's saved work.

    Attributes:
        keeps_work: Whether it keeps any; None before it has run.
        has_checkpoint: Whether it can resume from one now.
        step: Of that checkpoint; None when it has none, or did not say.
        saved_s_ago: Its age, seconds; None for no checkpoint.
        at_stake_s: Run time since it, or of the newest attempt, in which steps were trained: what is lost with its end,
            seconds. None where nothing runs that could be lost.
        is_over: That attempt has ended.
        is_complete: The job has done all its work.
    """

    keeps_work: KeepsWork | None
    has_checkpoint: bool = False
    step: int | None = None
    saved_s_ago: float | None = None
    at_stake_s: float | None = 0.0
    is_over: bool = False
    is_complete: bool = False

    @property
    def sentence(self) -> str:
        """Return what is kept and what is lost; empty before it has run, and when it is complete."""
        if self.keeps_work is None or self.is_complete:
            return ""
        if self.at_stake_s is None:
            return f"{self._newest}."
        if self.at_stake_s < 0.5:
            return f"{self._newest}; no work is lost."
        work = time_words(self.at_stake_s)
        if self.keeps_work == "unknown":
            ending = "is lost, but for what it saved itself" if self.is_over else "counts as lost when it is stopped"
            more = "" if self.is_over else " What it saves itself is not known."
            return f"{self._newest}: {work} of work {ending}.{more}"
        lost = "is lost" if self.is_over else "would be lost"
        if not self.has_checkpoint:
            return f"{self._newest}: {work} of work {lost}."
        ago = "" if self.saved_s_ago is None else f" (checkpoint {time_words(self.saved_s_ago)} ago)"
        return f"{self._newest}{ago}; {work} of work since {lost}."

    @property
    def _newest(self) -> str:
        """Return what is known of the newest checkpoint, without the end of its sentence."""
        if self.keeps_work == "unknown":
            return "It has told of no checkpoint"
        if not self.has_checkpoint:
            return "It has written no checkpoint"
        return "It has a checkpoint" if self.step is None else f"Step {self.step} is kept"


def time_words(seconds: float) -> str:
    """Return a length of time for a sentence: ``12 s``, ``4 min``, ``2 h 5 min``."""
    if seconds < 100:
        return f"{round(seconds)} s"
    minutes = round(seconds / 60)
    hours, rest = divmod(minutes, 60)
    if not hours:
        return f"{minutes} min"
    return f"{hours} h {rest} min" if rest else f"{hours} h"
