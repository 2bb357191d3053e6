"""Each preemption of a job in sentences: by which job, by which rule, what was lost, when it went on."""

from dataclasses import dataclass

from frontend.components.formats import clock, duration, number
from frontend.components.happenings import RULES
from frontend.pages.jobs.subject import Subject
from scheduler.core.model.plan import PreemptRule
from scheduler.selectors.jobs.rows import ReceiptRow, RunRow
from scheduler.selectors.rows import NamedJob

MOST_RECEIPTS = 5
# Why a policy put the job that took the place first; ``{}`` is that job.
FIRST_BY_POLICY = {
    "las": "{} has used less GPU time",
    "gittins": "{} is likelier to end soon",
    "srtf": "{} has less time left",
    "priority": "{} has a higher priority",
    "fifo": "{} came first",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What one preemption took and gave, as sentences; ``href`` leads to the job that took the place."""

    before: str
    by: str
    href: str
    after: str


def receipts_of(subject: Subject) -> tuple[list[Receipt], int]:
    """Return the receipts of the newest preemptions, newest first, and how many more there are."""
    entries = subject.attempts
    made = []
    for index in range(len(entries) - 1, -1, -1):
        if receipt := entries[index]["receipt"]:
            following = entries[index + 1] if index + 1 < len(entries) else None
            made.append(_receipt(receipt, entries[index], following, subject))
    return made[:MOST_RECEIPTS], max(0, len(made) - MOST_RECEIPTS)


def _receipt(receipt: ReceiptRow, attempt: RunRow, following: RunRow | None, subject: Subject) -> Receipt:
    at = subject.time(receipt["at"])
    by = receipt["by_job"]
    when = f"Preempted at {clock(at, subject.at, subject.zone)}" if at else "Preempted"
    parts = [_lost_words(attempt, subject)]
    if following is not None:
        resumed = subject.time(following["started_at"])
        if resumed is not None:
            step = f" at step {number(following['resume_step'])}" if following["resume_step"] is not None else ""
            parts.append(f"Resumed at {clock(resumed, subject.at, subject.zone)}{step}.")
    elif attempt["end"] is None:
        parts.append("It writes its checkpoint.")
    elif not subject.is_over:
        parts.append("It waits to resume.")
    why = _rule_words(receipt["rule"], by, subject)
    return Receipt(
        before=f"{when} by " if by else f"{when}: ",
        by=by["name"] if by else "",
        href=f"/jobs/J-{by['number']}" if by and by["number"] else "",
        after=(f" ({by['queue']}): " if by else "") + f"{why}. " + " ".join(part for part in parts if part),
    )


def _rule_words(rule: str, by: NamedJob | None, subject: Subject) -> str:
    if rule == PreemptRule.QUOTA_RECLAIM:
        return f"{by['queue'] if by else 'another queue'} took its quota back"
    if rule == PreemptRule.OVER_SHARE:
        return f"{subject.job.queue.name} held more than its fair share of what is lent"
    if rule == PreemptRule.SERVER_GONE:
        return "its server left the pool"
    if rule == PreemptRule.NO_SHARE:
        return subject.words("the policy gave its GPUs to other jobs")
    if rule == PreemptRule.MOVED:
        return "it went on elsewhere"
    if rule == PreemptRule.UNPACKED:
        return subject.words("it no longer shared the GPUs of another job")
    if rule != PreemptRule.POLICY_ORDER:
        return RULES.get(rule, rule)
    first = by["name"] if by else "another job"
    return subject.words(FIRST_BY_POLICY.get(subject.explain["policy"], "{} comes before it")).format(first)


def _lost_words(attempt: RunRow, subject: Subject) -> str:
    if attempt["lost_s"] is None:
        return ""
    if attempt["lost_s"] < 0.5:
        return "No work lost."
    lost = f"{duration(attempt['lost_s'])} of work lost"
    if attempt["first_step"] is None and subject.detail["checkpoint"] is None:
        return f"{lost}, but for what it saved itself: it has told of no checkpoint."
    return f"{lost}: no newer checkpoint."
