"""The table beside an elastic job: what one device more or fewer does, and which job would get the next one."""

from dataclasses import dataclass

from frontend.components.formats import duration, number, percent
from frontend.pages.jobs.subject import Subject
from scheduler.selectors.jobs.reason_rows import ElasticJobRow
from scheduler.whatif.one_job.next_gpu import next_gpu

WHY = {"shortness": "It is the shortest of them.", "efficiency": "It gains most by it."}


@dataclass(frozen=True, slots=True, kw_only=True)
class ElasticJobLine:
    """One elastic job."""

    name: str
    href: str
    gpus: str
    more: str
    fewer: str
    left: str
    change: str
    is_own: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NextGpuCard:
    """The card."""

    title: str
    sub: str
    lines: list[ElasticJobLine]


def next_gpu_of(subject: Subject) -> NextGpuCard | None:
    """Return the card; None for a job that is not elastic, does not run, or where no policy shares devices out."""
    resources = subject.detail["spec"]["resources"]
    if not subject.is_holding or resources["min_gpus"] == resources["max_gpus"]:
        return None
    found = next_gpu(subject.request.user, subject.job, subject.at)
    if found is None:
        return None
    winner, one = found["winner"], subject.device.one
    if winner is None:
        title = f"No job would gain by one more {one}"
    else:
        title = f"The next free {one} would go to {'this job' if winner['is_own'] else winner['name']}"
    why = WHY.get(found["why"], "")
    return NextGpuCard(
        title=title,
        sub=f"As {found['policy']} would share out one more {one} now. {why}".rstrip(),
        lines=[_line(row) for row in found["rows"]],
    )


def _line(row: ElasticJobRow) -> ElasticJobLine:
    change = row["change"]
    assumed = "" if row["is_measured"] else ", assumed linear"
    return ElasticJobLine(
        name=row["name"],
        href=f"/jobs/J-{row['number']}" if row["number"] else "",
        gpus=number(row["num_gpus"]),
        more="at its most" if row["gain_frac"] is None else f"{percent(row['gain_frac'])} faster{assumed}",
        fewer="at its least" if row["loss_frac"] is None else f"{percent(row['loss_frac'])} slower{assumed}",
        left=duration(row["remaining_s"]) if row["remaining_s"] is not None else "not known",
        change=f"{change:+d}" if change else "as now",
        is_own=row["is_own"],
    )
