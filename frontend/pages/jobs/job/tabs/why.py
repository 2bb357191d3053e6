"""Why and when: the binding constraint, its evidence, the checks, jobs ahead, what held it back."""

from frontend.pages.jobs.job.receipts import receipts_of
from frontend.pages.jobs.subject import Subject
from frontend.pages.jobs.waiting.estimate import estimate_view
from frontend.pages.jobs.waiting.offers import offers_of
from frontend.pages.jobs.waiting.why import ahead_title, checks_title, pieces_of, reason_context
from scheduler.selectors.jobs.reason_rows import CheckRow


def context(subject: Subject) -> dict[str, object]:
    """Return the variables of the template."""
    explain = subject.explain
    checks: list[CheckRow] = [
        {**check, "name": subject.words(check["name"]), "text": subject.words(check["text"])}
        for check in explain["checks"]
    ]
    pieces, waited = pieces_of(subject)
    return {
        "reason": reason_context(subject),
        "explain": explain,
        "checks": checks,
        "checks_title": checks_title(checks),
        "ahead": [{**row, "sentence": subject.words(row["sentence"])} for row in explain["ahead"]],
        "ahead_title": ahead_title(explain),
        "estimate": estimate_view(subject),
        "offers": offers_of(subject),
        "pieces": pieces,
        "waited": waited,
        "receipts": receipts_of(subject),
    }
