"""The notice that a job has told of no checkpoint, so that what it keeps when it is stopped is not known."""

from dataclasses import dataclass

from frontend.components.formats import duration
from frontend.pages.jobs.subject import Subject
from scheduler.core.spec.limits import STOP_SIGNALS
from scheduler.core.spec.units import parse_duration_s

# A script that uses the runtime reports within seconds, once its libraries are imported.
SILENT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """The finding and what it means."""

    title: str
    sentence: str


def unknown_of(subject: Subject) -> Unknown | None:
    """Return the notice for a job that has run for a while and told of no checkpoint; None for every other."""
    attempt = subject.detail["attempt"]
    started = subject.time(attempt["started_at"]) if attempt and not subject.is_over else None
    if started is None or subject.detail["keeps_work"] != "unknown":
        return None
    if not subject.is_holding:
        return Unknown(title="What it kept when it was stopped is not known", sentence=subject.detail["kept"])
    if (subject.at - started).total_seconds() < SILENT_S:
        return None
    asked = subject.job.spec["checkpoint"]
    signal, grace = f"SIG{asked.get('signal', STOP_SIGNALS[0])}", duration(parse_duration_s(asked["grace"]))
    return Unknown(
        title="What it keeps when it is stopped is not known",
        sentence=f"{subject.detail['kept']} Every process of it gets {signal} then, and has {grace} to save.",
    )
