"""Why and when: the binding constraint, its evidence, the checks, jobs ahead, what held it back."""

from typing import TypedDict

from frontend.components.charts import Chart
from frontend.pages.jobs.job.receipts import Receipt, receipts_of
from frontend.pages.jobs.subject import Subject
from frontend.pages.jobs.waiting.chances import chance_chart
from frontend.pages.jobs.waiting.checks import Checks, checks_of
from frontend.pages.jobs.waiting.course import Course, course_of
from frontend.pages.jobs.waiting.estimate import EstimateView, estimate_view
from frontend.pages.jobs.waiting.freeing import Freeing, freeing_of
from frontend.pages.jobs.waiting.offers import ChangeOffer, offers_of
from frontend.pages.jobs.waiting.server_map import ServerMap, server_map
from frontend.pages.jobs.waiting.why import SHOWS_HOLDERS, ReasonBox, ahead_title, reason_context, starts_when
from scheduler.core.model.lifecycle import JobState
from scheduler.selectors.cluster.next_free import next_free
from scheduler.selectors.jobs.reason_rows import Explanation, JobAhead
from scheduler.whatif.one_job.unblock import nothing_helps


class WhyTab(TypedDict):
    """The variables of its template."""

    reason: ReasonBox
    explain: Explanation
    servers: ServerMap | None
    checks: Checks | None
    ahead: list[JobAhead]
    ahead_title: str
    starts_when: str
    needed_change: str
    nothing_helps: str
    estimate: EstimateView | None
    offers: list[ChangeOffer] | None
    course: Course
    receipts: list[Receipt]
    older_receipts: list[Receipt]
    num_older: int
    more_receipts: int
    chance: Chart | None
    freeing: Freeing | None


RECEIPTS_SEEN = 3  # older ones are folded


def context(subject: Subject) -> WhyTab:
    """Return the variables of the template."""
    explain = subject.explain
    estimate, offers = estimate_view(subject), offers_of(subject)
    told = nothing_helps(subject.request.user, subject.job, explain) if offers == [] else ""
    # What frees devices tells nothing of a job that no end of another one can start.
    is_of_place = subject.state is JobState.QUEUED and explain["reason"] in SHOWS_HOLDERS
    waits = is_of_place and not explain["needed_change"]
    freeing = freeing_of(subject, next_free(subject.request.user, subject.at)) if waits else None
    receipts, more_receipts = receipts_of(subject)
    return {
        "reason": reason_context(subject),
        "explain": explain,
        "servers": server_map(subject, freeing) if is_of_place and subject.servers else None,
        "checks": checks_of(subject),
        "ahead": [{**row, "sentence": subject.words(row["sentence"])} for row in explain["ahead"]],
        "ahead_title": ahead_title(explain),
        "starts_when": starts_when(subject) if explain["position"] == 1 else "",
        "needed_change": subject.words(explain["needed_change"]),
        "estimate": estimate,
        "chance": chance_chart(subject, estimate if estimate and estimate.late else None),
        "freeing": freeing if freeing and freeing.events else None,
        "offers": offers,
        "nothing_helps": subject.words(told),
        "course": course_of(subject),
        "receipts": receipts[:RECEIPTS_SEEN],
        "older_receipts": receipts[RECEIPTS_SEEN:],
        "num_older": len(receipts[RECEIPTS_SEEN:]) + more_receipts,
        "more_receipts": more_receipts,
    }
