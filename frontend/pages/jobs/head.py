"""The head of a job's page: its facts in one line, and what may be done with it, with the effect in numbers."""

from dataclasses import dataclass

from frontend.components.formats import counted, data_size, duration, joined, number, whole_s
from frontend.pages.jobs.subject import Subject
from scheduler.core.model.lifecycle import HOLDING, JobState
from scheduler.core.spec.limits import STOP_SIGNALS
from scheduler.core.spec.units import parse_duration_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One thing to do with a job.

    Attributes:
        key: Last part of its URL.
        title, effect, keep: Words of the question that is asked first.
    """

    key: str
    icon: str
    label: str
    title: str
    effect: str
    keep: str
    verb: str
    danger: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TimePhrase:
    """The time phrase of the head: words, how long, words; a script counts on from ``since`` (ISO)."""

    words: str
    since: str = ""
    took: str = ""
    after: str = ""


def ordinal(count: int) -> str:
    """Return ``1st``, ``2nd``, ``3rd``, ``11th``."""
    ending = "th" if count % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(count % 10, "th")
    return f"{number(count)}{ending}"


def place_in_line(position: int, waiting: int | None) -> str:
    """Return ``next in line``, or ``12th of 14 in line``."""
    return "next in line" if position == 1 or not waiting else f"{ordinal(position)} of {number(waiting)} in line"


def place_words(subject: Subject) -> str:
    """Return how much it asks for or holds, and where."""
    size = subject.device.counted(subject.job.num_gpus)
    attempt = subject.detail["attempt"]
    if subject.is_holding and attempt:
        return f"{size} on {joined([seat['server'] for seat in attempt['servers']]) or 'no server'}"
    return size if subject.is_over else asked_words(subject)


def asked_words(subject: Subject) -> str:
    """Return how much it asks for, and on how many servers at most."""
    size = subject.device.counted(subject.job.num_gpus)
    if subject.job.num_gpus == 1:
        return size
    most = subject.job.spec["resources"].get("max_servers") or 1  # a spec of before has none
    return f"{size} on one server" if most == 1 else f"{size} on up to {number(most)} servers"


def moment(subject: Subject) -> TimePhrase:
    """Return since when it is as it is."""
    detail, state = subject.detail, subject.state
    changed = detail["state_changed_at"]
    if detail["wanted"] == "cancel" and subject.is_holding:
        return TimePhrase(words="is being cancelled")
    if state is JobState.QUEUED:
        position, waiting = subject.explain["position"], subject.explain["waiting_jobs"]
        place = f", {place_in_line(position, waiting)}" if position and waiting else ""
        return _since(subject, "submitted", detail["submitted_at"], f" ago{place}")
    if state is JobState.RUNNING:
        running = next((run for run in subject.attempts if run["end"] is None), None)
        return _since(subject, "running", (subject.ran_from(running) if running else None) or changed)
    if state in HOLDING or state is JobState.SUSPENDED:
        words = {
            JobState.LAUNCHING: "launching",
            JobState.PREEMPTING: "making room",
            JobState.SUSPENDING: "stopping",
            JobState.SUSPENDED: "suspended",
        }
        return _since(subject, f"{words[state]} for", changed)
    ran = f"ran {duration(detail['executed_s'])}" if detail["executed_s"] else "never ran"
    return _since(subject, f"{ran}, {state}", changed, " ago")


def _since(subject: Subject, words: str, at: str, after: str = "") -> TimePhrase:
    begun = subject.time(at)
    took_s = max(0.0, (subject.at - begun).total_seconds()) if begun else 0.0
    return TimePhrase(words=f"{words} ", since=at, took=duration(whole_s(took_s)), after=after)


def actions(subject: Subject) -> list[Action]:
    """Return what the reader may do with the job now, least drastic first."""
    makers = {
        "restore": _restore,
        "suspend": _suspend,
        "resume": _resume,
        "cancel": _cancel,
        "discard": _discard,
    }
    order = ("restore", "resume", "suspend", "cancel", "discard")
    return [makers[key](subject) for key in order if key in subject.detail["actions"]]


def _held(subject: Subject) -> str:
    return subject.device.counted(subject.job.num_gpus)


def _suspend(subject: Subject) -> Action:
    effect = "It keeps its place in the list of jobs and starts nothing until you resume it."
    if subject.is_holding:
        grace_s = parse_duration_s(subject.job.spec["checkpoint"]["grace"])
        effect = (
            f"It writes a checkpoint within {duration(grace_s)} and gives {_held(subject)} back. "
            "It continues from there when you resume it."
        )
        if subject.detail["keeps_work"] == "unknown":
            signal = f"SIG{subject.job.spec['checkpoint'].get('signal', STOP_SIGNALS[0])}"
            effect = f"It gets {signal}, has {duration(grace_s)} to save, and gives {_held(subject)} back. "
            effect += subject.detail["kept"]
    return Action(
        key="suspend",
        icon="pause",
        label="Suspend",
        title=f"Suspend {subject.job.name}?",
        effect=effect,
        keep="Keep",
        verb=f"Suspend {subject.key}",
    )


def _resume(subject: Subject) -> Action:
    step = subject.job.checkpoint_step
    where = f"continues from step {number(step)}" if step else "begins at its first step"
    if not step and subject.detail["keeps_work"] == "unknown":
        where = "starts anew in its directory, with the files it saved there"
    return Action(
        key="resume",
        icon="play",
        label="Resume",
        title=f"Resume {subject.job.name}?",
        effect=f"It waits for {_held(subject)} again and {where}.",
        keep="Not now",
        verb=f"Resume {subject.key}",
    )


def _restore(subject: Subject) -> Action:
    return Action(
        key="restore",
        icon="rotate-ccw",
        label="Undo cancel",
        title=f"Take the cancel of {subject.job.name} back?",
        effect="It is as it was before: with its number, its place in the queue and its checkpoints.",
        keep="Not now",
        verb=f"Restore {subject.key}",
    )


def _discard(subject: Subject) -> Action:
    directory = subject.detail["directory"]
    size = data_size(directory["size_bytes"] if directory else 0)
    return Action(
        key="discard",
        icon="trash-2",
        label="Delete files",
        title=f"Delete the files of {subject.job.name}?",
        effect=f"{size} in its directory and its HOME go for good. Its log, its checkpoints and its page stay.",
        keep="Keep them",
        verb=f"Delete {size}",
        danger=True,
    )


def _cancel(subject: Subject) -> Action:
    job, detail = subject.job, subject.detail
    if subject.is_holding:
        at_step = f" at step {number(job.step)}" if job.step is not None else ""
        effect = f"It stops{at_step} and gives {_held(subject)} back. It does not start again. {detail['kept']}"
    elif detail["executed_s"]:
        ran = duration(detail["executed_s"])
        effect = f"It has run for {ran} in {counted(len(subject.attempts), 'attempt')}. It does not start again."
    else:
        effect = "It has not run yet. It leaves the queue and does not start again."
    return Action(
        key="cancel",
        icon="ban",
        label="Cancel",
        title=f"Cancel {job.name}?",
        effect=effect,
        keep="Keep",
        verb=f"Cancel {subject.key}",
        danger=True,
    )
