"""Progress of a job: estimated end from measured rates, small tiles, the outcome."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median

from frontend.components.devices import GPUS
from frontend.components.formats import NBSP, clock, counted, data_size, duration, number, rough, significant
from frontend.components.times import Series
from frontend.pages.jobs.charts.timeline import CAUSES, cause_words
from frontend.pages.jobs.subject import Subject
from scheduler.core.model.lifecycle import JobState
from scheduler.core.operations.time_left import moment_after, time_left_s
from scheduler.selectors.cluster.fairness import rho_of

FRESH_S = 60.0  # older progress gives no estimate
RATE_SAMPLES = 60  # newest rates that an estimate rests on
LEAST_SAMPLES = 8  # for a range


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """When a job ends at the present rate; ``low`` and ``high`` None where the rate's spread is not known."""

    at: datetime
    low: datetime | None = None
    high: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """One small number: ``missing`` stands in place of the value when there is none."""

    id: str
    label: str
    value: str
    unit: str = ""
    missing: str = "not measured"
    since: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedWords:
    """How a job ended, in a sentence and what the attempt said."""

    tone: str
    icon: str
    sentence: str
    detail: str


def ends_at(*, step: int | None, total_steps: int | None, steps_per_s: float | None, now: datetime) -> datetime | None:
    """Return when the last step is done at this rate; None unless both are known."""
    if step is None or not total_steps or step >= total_steps:
        return None
    return moment_after(now, time_left_s(step=step, total_steps=total_steps, steps_per_s=steps_per_s))


def ends_of(subject: Subject) -> Ends | None:
    """Return when the job ends, from the newest rates; None while it does not train or says too little."""
    job = subject.job
    if subject.state is not JobState.RUNNING or job.progress_at is None:
        return None
    if (subject.at - job.progress_at).total_seconds() > FRESH_S:
        return None
    rates = [rate for rate in subject.series["steps_per_s"][-RATE_SAMPLES:] if rate]
    rate = median(rates) if rates else job.steps_per_s
    at = ends_at(step=job.step, total_steps=job.total_steps, steps_per_s=rate, now=subject.at)
    if at is None:
        return None
    if len(rates) < LEAST_SAMPLES:
        return Ends(at=at)
    ordered = sorted(rates)
    fast, slow = ordered[int(len(ordered) * 0.9)], ordered[int(len(ordered) * 0.1)]
    return Ends(
        at=at,
        low=ends_at(step=job.step, total_steps=job.total_steps, steps_per_s=fast, now=subject.at),
        high=ends_at(step=job.step, total_steps=job.total_steps, steps_per_s=slow, now=subject.at),
    )


def ends_words(subject: Subject) -> tuple[str, str, str]:
    """Return when the job ends (words, time) and between which times; empty where that is not known."""
    ends = ends_of(subject)
    if ends is None:
        return "", "", ""
    left_s = (ends.at - subject.at).total_seconds()
    if left_s < 90:
        return "ends in about", duration(max(1.0, float(round(left_s)))), ""
    words = clock(ends.at, subject.at, subject.zone)
    if ends.low is None or ends.high is None or ends.high - ends.low < timedelta(minutes=1):
        return "ends at about", words, ""
    low, high = clock(ends.low, subject.at, subject.zone), clock(ends.high, subject.at, subject.zone)
    return "ends at about", words, f", between {low} and {high}"


def newest(series: Series, name: str, at: datetime) -> float | None:
    """Return the newest measured value, if it is of the last minute."""
    for moment, value in zip(reversed(series["at"]), reversed(series[name]), strict=True):
        if (at - moment).total_seconds() > FRESH_S:
            return None
        if value is not None:
            return float(value)
    return None


def tiles(subject: Subject) -> list[Tile]:
    """Return the small tiles: what is measured while it runs, what it took once it does not."""
    made = _running_tiles(subject) if subject.is_holding else _past_tiles(subject)
    rho = rho_of(subject.job, subject.at)
    return made if rho is None else [*made, Tile(id="rho", label="Fairness \u03c1", value=number(rho, 2))]


def _running_tiles(subject: Subject) -> list[Tile]:
    job, series, at = subject.job, subject.series, subject.at
    gpu, cpu = newest(series, "gpu_frac", at), newest(series, "cpu_frac", at)
    memory = newest(series, "memory_bytes", at)
    rate = job.steps_per_s
    use = ("GPU use", gpu) if subject.device == GPUS else ("CPU use", cpu)
    size = data_size(memory).split("\u00a0") if memory is not None else ["", ""]
    granted = granted_bytes(subject)
    checkpoint = subject.detail["checkpoint"]
    age_s = (at - job.checkpoint_at).total_seconds() if job.checkpoint_at else 0.0
    return [
        Tile(id="rate", label="Throughput", value=significant(rate) if rate is not None else "", unit="steps/s"),
        Tile(id="use", label=use[0], value=number(use[1] * 100) if use[1] is not None else "", unit="%"),
        Tile(
            id="checkpoint",
            label="Checkpoint",
            value=duration(max(1.0, age_s)) if checkpoint else "",
            unit="ago" if checkpoint else "",
            missing="none yet",
            since=checkpoint["at"] if checkpoint else None,
        ),
        Tile(
            id="memory",
            label="Memory",
            value=size[0],
            unit=f"{size[1]} of {data_size(granted)}" if granted else size[1],
        ),
    ]


def granted_bytes(subject: Subject) -> int | None:
    """Return the memory that the newest attempt was given."""
    attempt = subject.detail["attempt"]
    return sum(seat["memory_bytes"] for seat in attempt["servers"]) if attempt else None


def _past_tiles(subject: Subject) -> list[Tile]:
    detail = subject.detail
    yet = "never" if subject.is_over else "not yet"
    times = [("ran", "Ran", detail["executed_s"], yet), ("waited", "Waited", waited_s(subject), "not at all")]
    made = [_time_tile(*given) for given in times]
    attained_s = detail["attained_gpu_s"]
    held = rough(attained_s) if attained_s >= 1 else ("under 1", "s") if attained_s else ("", "")
    unit = f"{subject.device.one} {held[1]}"
    made.append(
        Tile(id="held", label="Held", value=held[0], unit=unit, missing="nothing" if subject.is_over else "nothing yet")
    )
    times_preempted = detail["preemptions"]
    unit = "time" if times_preempted == 1 else "times"
    made.append(
        Tile(
            id="preempted",
            label="Preempted",
            value=number(times_preempted) if times_preempted else "",
            unit=unit,
            missing="never",
        )
    )
    return made


def waited_s(subject: Subject) -> float:
    """Return the seconds in which it waited, the present wait included."""
    return sum(entry["duration_s"] for entry in subject.timeline if entry["kind"] == "wait")


def _time_tile(key: str, label: str, seconds: float, missing: str) -> Tile:
    value = duration(seconds) if seconds >= 1 else f"under{NBSP}1{NBSP}s" if seconds else ""
    return Tile(id=key, label=label, value=value, missing=missing)


def outcome_of(subject: Subject) -> EndedWords | None:
    """Return how the job ended; None while it has not."""
    if not subject.is_over:
        return None
    job, attempts = subject.job, subject.attempts
    at_step = f" at step {number(job.step)}" if job.step is not None else ""
    of_total = f" of {number(job.total_steps)}" if job.step is not None and job.total_steps else ""
    tries = f" in {counted(len(attempts), 'attempt')}" if len(attempts) > 1 else ""
    ran = f" after {duration(job.executed_s)}{tries}" if job.executed_s else ""
    if subject.state is JobState.COMPLETED:
        return EndedWords(tone="ok", icon="check", sentence=f"Completed{at_step}{of_total}{ran}.", detail="")
    if subject.state is JobState.CANCELLED:
        return EndedWords(
            tone="none", icon="ban", sentence=f"Cancelled{at_step}{of_total}{ran}.", detail=job.end_detail
        )
    cause = cause_words(attempts[-1]) if attempts else CAUSES.get(job.end_cause, "Failed")
    verb = cause if cause.startswith("Failed") else f"Failed: {cause[:1].lower()}{cause[1:]}" if cause else "Failed"
    return EndedWords(tone="bad", icon="x", sentence=f"{verb}{at_step}{of_total}{ran}.", detail=job.end_detail)
