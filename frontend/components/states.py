"""Colour, icon and word of each state, the same on every page and in the scripts."""

from dataclasses import asdict, dataclass

from scheduler.core.model.lifecycle import PREPARING, JobState


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """How a state is shown: class suffix of its colour, Lucide icon, word."""

    tone: str
    icon: str
    word: str


JOB_LOOKS: dict[str, Look] = {
    JobState.QUEUED: Look(tone="mute", icon="clock", word="Queued"),
    PREPARING: Look(tone="teal", icon="package", word="Preparing"),
    JobState.LAUNCHING: Look(tone="teal", icon="circle-arrow-up", word="Launching"),
    JobState.RUNNING: Look(tone="info", icon="play", word="Running"),
    JobState.PARKED: Look(tone="mute", icon="pause", word="Parked"),
    JobState.PREEMPTING: Look(tone="warn", icon="log-out", word="Preempting"),
    JobState.SUSPENDING: Look(tone="warn", icon="log-out", word="Suspending"),
    JobState.SUSPENDED: Look(tone="warn", icon="pause", word="Suspended"),
    JobState.COMPLETED: Look(tone="ok", icon="check", word="Completed"),
    JobState.FAILED: Look(tone="bad", icon="x", word="Failed"),
    JobState.CANCELLED: Look(tone="none", icon="ban", word="Cancelled"),
}
EXPERIMENT_LOOKS: dict[str, Look] = {
    "found": Look(tone="ok", icon="check", word="Found"),
    "exhausted": Look(tone="mute", icon="info", word="All tried"),
}
REQUEST_LOOKS: dict[str, Look] = {
    "open": Look(tone="warn", icon="clock", word="Open"),
    "granted": Look(tone="ok", icon="check", word="Granted"),
    "refused": Look(tone="bad", icon="x", word="Refused"),
    "withdrawn": Look(tone="none", icon="ban", word="Withdrawn"),
}
SERVER_LOOKS: dict[str, Look] = {
    "joining": Look(tone="mute", icon="clock", word="Joining"),
    "up": Look(tone="ok", icon="check", word="Up"),
    "draining": Look(tone="drained", icon="log-out", word="Draining"),
    "drained": Look(tone="drained", icon="log-out", word="Drained"),
    "lost": Look(tone="bad", icon="triangle-alert", word="Lost"),
}


def looks_for_scripts() -> dict[str, dict[str, str]]:
    """Return the looks of job states as JSON data."""
    return {str(state): asdict(look) for state, look in JOB_LOOKS.items()}


def look(state: str) -> Look:
    """Return the look of a job's, server's or request's state; an unknown word is shown as it is."""
    return (
        JOB_LOOKS.get(state)
        or SERVER_LOOKS.get(state)
        or EXPERIMENT_LOOKS.get(state)
        or REQUEST_LOOKS.get(state)
        or Look(tone="mute", icon="info", word=state.capitalize())
    )
