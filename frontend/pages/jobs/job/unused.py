"""The notice that a job holds devices without using them, and when it is suspended or cancelled for it."""

from dataclasses import dataclass
from datetime import timedelta

from frontend.components.formats import clock, duration, percent
from frontend.pages.jobs.subject import Subject, them
from scheduler.core.model.lifecycle import JobState
from scheduler.core.operations.idle import GPU_BELOW_FRAC, IdleAction, IdleRule

VERBS = {IdleAction.SUSPEND: "suspended", IdleAction.CANCEL: "cancelled"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Unused:
    """The finding and what follows."""

    title: str
    sentence: str


def unused_of(subject: Subject) -> Unused | None:
    """Return the notice for a job that was told of or suspended for it; None for every other."""
    since, state = subject.job.idle_since, subject.state
    held, it = subject.device.counted(subject.job.num_gpus), them(subject.job.num_gpus)
    if since is None:
        return None
    if state in (JobState.SUSPENDING, JobState.SUSPENDED):
        sentence = f"Resume it when you need {it} again: it goes on from its checkpoint."
        return Unused(title=f"It was suspended because it held {held} without using {it}", sentence=sentence)
    if state is not JobState.RUNNING:
        return None
    begun = clock(since, subject.at, subject.zone)
    return Unused(
        title=f"It holds {held} and has not used {it} for {duration((subject.at - since).total_seconds())}",
        sentence=f"Used less than {percent(GPU_BELOW_FRAC)} since {begun}. {_then(subject)}",
    )


def _then(subject: Subject) -> str:
    queue, since = subject.job.queue, subject.job.idle_since
    it = them(subject.job.num_gpus)
    free = f"Suspend or cancel it to let others have {it}."
    if queue.idle_after_s is None or since is None or queue.idle_action == IdleAction.TELL:
        return free
    rule = IdleRule(after_s=queue.idle_after_s, action=IdleAction(queue.idle_action))
    at = since + timedelta(seconds=rule.after_s + rule.grace_s)
    soon = f"at about {clock(at, subject.at, subject.zone)}" if at > subject.at else "soon"
    return f"It is {VERBS[rule.action]} {soon} unless it uses {it}, computes on its cores or makes steps. {free}"
