"""When a job runs, and how it is asked to end: the sections ``schedule`` and ``checkpoint`` of a spec."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scheduler.core.spec import limits as limit
from scheduler.core.spec.reading import FieldReader, quoted
from scheduler.core.spec.units import format_duration


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When it runs.

    Attributes:
        priority: 0 to 100, larger first where the policy looks at it.
        preemptible: Whether it may be stopped for another job.
        max_duration_s: Run time after which it is ended, seconds; None for no limit.
        warn_before_s: How long before that it is asked to end, seconds; None for not at all.
    """

    priority: int = 50
    preemptible: bool = True
    max_duration_s: float | None = None
    warn_before_s: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON data with all defaults."""
        return {
            "priority": self.priority,
            "preemptible": self.preemptible,
            "max_duration": None if self.max_duration_s is None else format_duration(self.max_duration_s),
            "warn_before": None if self.warn_before_s is None else format_duration(self.warn_before_s),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """How it is asked to end: ``signal``, without SIG, and ``grace_s``, its time to save then, seconds."""

    grace_s: float = limit.DEFAULT_GRACE_S
    signal: str = limit.STOP_SIGNALS[0]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON data with all defaults."""
        return {"grace": format_duration(self.grace_s), "signal": self.signal}


def read_schedule(reader: FieldReader, value: object) -> Schedule:
    """Return the section; a bad field is an entry of the reader and has its default."""
    keys = ("priority", "preemptible", "max_duration", "warn_before")
    data = reader.mapping(value, "/schedule", label="schedule", keys=keys)
    longest, preemptible = data.get("max_duration"), data.get("preemptible")
    max_duration_s = (
        None
        if longest is None
        else reader.duration(longest, "/schedule/max_duration", "max_duration", limit.DURATION_S, default=48 * 3600.0)
    )
    return Schedule(
        priority=reader.whole(data.get("priority"), "/schedule/priority", "priority", limit.PRIORITY, default=50),
        preemptible=True
        if preemptible is None
        else reader.flag(preemptible, "/schedule/preemptible", label="preemptible", default=True),
        max_duration_s=max_duration_s,
        warn_before_s=_read_warning(reader, data, max_duration_s),
    )


def _read_warning(reader: FieldReader, data: Mapping[str, object], max_duration_s: float | None) -> float | None:
    value, pointer = data.get("warn_before"), "/schedule/warn_before"
    if value is None:
        return None
    before_s = reader.duration(value, pointer, "warn_before", limit.WARN_BEFORE_S, default=120.0)
    if max_duration_s is None:
        detail = "warn_before needs a max_duration: it says how long before that the job is asked to end."
        reader.bad(pointer, "required", detail)
        return None
    if before_s >= max_duration_s:
        longest = format_duration(max_duration_s)
        detail = f"warn_before must be shorter than max_duration, {longest}. You asked for {format_duration(before_s)}."
        reader.bad(pointer, "range", detail)
        return None
    return before_s


def read_checkpoint(reader: FieldReader, value: object) -> Checkpoint:
    """Return the section; a bad field is an entry of the reader and has its default."""
    data = reader.mapping(value, "/checkpoint", label="checkpoint", keys=("grace", "signal"))
    return Checkpoint(
        grace_s=reader.duration(
            data.get("grace"), "/checkpoint/grace", "checkpoint grace", limit.GRACE_S, default=limit.DEFAULT_GRACE_S
        ),
        signal=_read_signal(reader, data.get("signal")),
    )


def _read_signal(reader: FieldReader, value: object) -> str:
    """Return one of the signals; SIGUSR1 and usr1 mean USR1."""
    if value is None:
        return limit.STOP_SIGNALS[0]
    name = value.strip().upper().removeprefix("SIG") if isinstance(value, str) else value
    if name in limit.STOP_SIGNALS:
        return str(name)
    known = ", ".join(limit.STOP_SIGNALS)
    reader.bad("/checkpoint/signal", "choice", f"checkpoint signal must be one of {known}, not {quoted(value)}.")
    return limit.STOP_SIGNALS[0]
