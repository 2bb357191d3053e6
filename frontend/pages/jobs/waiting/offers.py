"""What would start a waiting job: the changes that were tried, each with the address that asks before it is made."""

from dataclasses import dataclass
from urllib.parse import urlencode

from frontend.components.formats import joined
from frontend.pages.jobs.subject import Subject
from scheduler.selectors.jobs.reason_rows import UnblockRow
from scheduler.whatif.one_job.unblock import job_unblockers_soon

# With more jobs a page does not wait for it.
MOST_JOBS_AT_ONCE = 200
ICONS = {
    "queue": "layers",
    "max_servers": "server",
    "resources": "gauge",
    "min_gpus": "move-diagonal",
    "gpus": "move-diagonal",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeOffer:
    """One change: its words, and the address that asks before it is made."""

    title: str
    sentence: str
    leavers: str
    tone: str
    icon: str
    href: str


def offers_of(subject: Subject) -> list[ChangeOffer] | None:
    """Return what would start the job now or sooner; None where that takes seconds and the page asks for it later."""
    most_jobs = None if "offers" in subject.request.GET else MOST_JOBS_AT_ONCE
    rows = job_unblockers_soon(subject.request.user, subject.job, subject.at, most_jobs=most_jobs)
    return None if rows is None else [_offer(subject, row) for row in rows]


def _offer(subject: Subject, row: UnblockRow) -> ChangeOffer:
    names = [job["name"] if not job["number"] else f"{job['name']} (J-{job['number']})" for job in row["preempts"]]
    return ChangeOffer(
        title=subject.words(row["title"]),
        sentence=subject.words(row["sentence"]),
        leavers=f"Makes room: {joined(names)}." if names else "",
        tone="ok" if row["starts"] == "now" else "info",
        icon=ICONS.get(row["key"], "info"),
        href=f"{subject.path}/unblock?{urlencode(row['change'])}",
    )
