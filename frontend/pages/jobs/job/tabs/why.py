"""Why and when: the binding constraint, its evidence, the checks, jobs ahead, what held it back."""

from typing import TypedDict

from frontend.components.charts import Chart
from frontend.pages.jobs.job.receipts import Receipt, receipts_of
from frontend.pages.jobs.subject import Subject
from frontend.pages.jobs.waiting.chances import NextEvent, chance_chart, next_events
from frontend.pages.jobs.waiting.estimate import EstimateView, estimate_view
from frontend.pages.jobs.waiting.offers import ChangeOffer, offers_of
from frontend.pages.jobs.waiting.why import Piece, ReasonBox, ahead_title, checks_title, pieces_of, reason_context
from scheduler.core.model.lifecycle import JobState
from scheduler.selectors.jobs.reason_rows import CheckRow, Explanation, JobAhead
from scheduler.whatif.one_job.unblock import nothing_helps


class WhyTab(TypedDict):
    """The variables of its template."""

    reason: ReasonBox
    explain: Explanation
    checks: list[CheckRow]
    checks_title: str
    ahead: list[JobAhead]
    ahead_title: str
    needed_change: str
    nothing_helps: str
    estimate: EstimateView | None
    offers: list[ChangeOffer] | None
    pieces: list[Piece]
    waited: str
    receipts: list[Receipt]
    more_receipts: int
    chance: Chart | None
    next_title: str
    next_events: list[NextEvent]


def context(subject: Subject) -> WhyTab:
    """Return the variables of the template."""
    explain = subject.explain
    checks: list[CheckRow] = [
        {**check, "name": subject.words(check["name"]), "text": subject.words(check["text"])}
        for check in explain["checks"]
    ]
    pieces, waited = pieces_of(subject)
    estimate, offers = estimate_view(subject), offers_of(subject)
    told = nothing_helps(subject.request.user, subject.job, explain) if offers == [] else ""
    known = estimate if estimate and estimate.rows else None
    # What frees devices tells nothing of a job that no end of another one can start.
    waits = subject.state is JobState.QUEUED and not explain["needed_change"]
    next_title, events = next_events(subject) if waits else ("", [])
    receipts, more_receipts = receipts_of(subject)
    return {
        "reason": reason_context(subject),
        "explain": explain,
        "checks": checks,
        "checks_title": checks_title(checks),
        "ahead": [{**row, "sentence": subject.words(row["sentence"])} for row in explain["ahead"]],
        "ahead_title": ahead_title(explain),
        "needed_change": subject.words(explain["needed_change"]),
        "estimate": estimate,
        "chance": chance_chart(subject, known),
        "next_title": next_title,
        "next_events": events,
        "offers": offers,
        "nothing_helps": subject.words(told),
        "pieces": pieces,
        "waited": waited,
        "receipts": receipts,
        "more_receipts": more_receipts,
    }
