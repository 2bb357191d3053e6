"""The overview of a job that reports no progress: its time, its newest file, its use, and what would say more.

Nothing is made up for it: no bar of progress, no end. Its log and its use stand where curves stand for others.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from statistics import fmean

from frontend.components.devices import GPUS
from frontend.components.formats import NBSP, clock, counted, data_size, duration, number, whole_s
from frontend.pages.jobs.charts.progress import granted_bytes
from frontend.pages.jobs.charts.shaping import thin
from frontend.pages.jobs.subject import Subject
from scheduler.core.model.lifecycle import JobState
from scheduler.core.spec.units import parse_duration_s
from scheduler.selectors.files.names import path_shown
from scheduler.selectors.files.survey import Seen
from scheduler.selectors.jobs.rows import RunRow

# A script that reports does so within seconds, once its libraries are imported.
SILENT_S = 60.0
POINTS = 64
# The loop of docs/practitioners.md: whether the line is ours, and the line.
LINES = (
    (True, "from clusterweb_runtime import Run"),
    (True, "run = Run(total_steps=total)"),
    (True, "for step in run.steps():"),
    (False, "    loss = train_one_step()"),
    (True, "    run.report(loss=loss)"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainTile:
    """One figure; ``percent`` fills a grey bar, empty for none."""

    label: str
    value: str
    unit: str = ""
    detail: str = ""
    percent: str = ""
    since: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UseLine:
    """Use of one thing over the attempt: its course, and how much of what it holds."""

    label: str
    course: list[float | None]
    value: str
    of: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainJob:
    """What is shown in place of progress and curves."""

    tiles: list[PlainTile]
    use_title: str
    use: list[UseLine]
    cost_title: str
    cost: str
    is_over: bool
    has_failed: bool
    lines: tuple[tuple[bool, str], ...] = LINES

    @property
    def has_side(self) -> bool:
        """Return whether anything stands beside the log: of a failed job only what was measured helps."""
        return bool(self.use or self.cost_title or not self.has_failed)

    @property
    def code(self) -> str:
        """Return the lines as they are copied."""
        return "\n".join(text for _, text in self.lines)


def plain_of(subject: Subject) -> PlainJob | None:
    """Return the overview of a job that has run for a while and told of no step; None for any other."""
    attempt, job = subject.detail["attempt"], subject.job
    started = subject.time(attempt["started_at"]) if attempt else None
    if started is None or job.step is not None or any(step is not None for step in subject.series["step"]):
        return None
    ended = subject.time(attempt["ended_at"]) if attempt else None
    run = subject.attempts[-1]
    if ended is None and run["ran_s"] < SILENT_S:
        return None
    newest, begun = subject.few_files[0].newest, job.first_started_at
    if newest and begun and newest.changed_s < begun.timestamp():
        newest = None  # it was there before the command first started: sent along, not saved
    use = _use(subject)
    cost_title, cost = _cost(subject, started, newest) if subject.is_holding else ("", "")
    return PlainJob(
        tiles=[
            _elapsed(subject, run),
            PlainTile(label="Progress", value="not reported", detail="" if ended else "so no end time either"),
            _saved(subject, newest, is_over=ended is not None),
        ],
        use_title=_use_title(use, is_over=ended is not None),
        use=use,
        cost_title=cost_title,
        cost=cost,
        is_over=ended is not None,
        has_failed=subject.state is JobState.FAILED,
    )


def _elapsed(subject: Subject, run: RunRow) -> PlainTile:
    limit, since = subject.job.spec["schedule"].get("max_duration"), subject.ran_from(run)
    is_over = run["end"] is not None
    took = duration(run["ran_s"] if is_over else whole_s(run["ran_s"]))
    ran = "Elapsed" if not is_over else "Ran" if len(subject.attempts) == 1 else "Last attempt ran"
    if limit is None:
        return PlainTile(label=ran, value=took, detail="without a time limit", since=since)
    limit_s = parse_duration_s(limit)
    stop = clock(subject.at + timedelta(seconds=limit_s - run["ran_s"]), subject.at, subject.zone)
    return PlainTile(
        label=f"{ran}, of its time limit",
        value=took,
        unit=f"of {duration(limit_s)}",
        detail="" if is_over else f"it is stopped at {stop}",
        percent=f"{min(100.0, 100 * run['ran_s'] / limit_s):.2f}" if limit_s else "",
        since=since,
    )


def _saved(subject: Subject, newest: Seen | None, *, is_over: bool) -> PlainTile:
    if newest is None:
        return PlainTile(label="Last file saved", value="none", detail=subject.few_files[1] or "in $CLUSTERWEB_JOB_DIR")
    changed, detail = datetime.fromtimestamp(newest.changed_s, UTC), path_shown(newest.parts)
    if is_over:
        return PlainTile(label="Last file saved", value=clock(changed, subject.at, subject.zone), detail=detail)
    ago_s = max(1.0, subject.at.timestamp() - newest.changed_s)
    return PlainTile(
        label="Last file saved", value=duration(whole_s(ago_s)), unit="ago", detail=detail, since=changed.isoformat()
    )


def _use(subject: Subject) -> list[UseLine]:
    """Return what was measured, the device first; nothing where nothing was."""
    found = [_frac(subject, subject.device.one, "gpu_frac")] if subject.device == GPUS else []
    found.append(_frac(subject, "CPU", "cpu_frac"))
    memory, granted = _course(subject, "memory_bytes"), granted_bytes(subject)
    if memory:
        of = f"of {data_size(granted)}" if granted else ""
        found.append(UseLine(label="Memory", course=list(memory), value=data_size(memory[-1]), of=of))
    return [line for line in found if line is not None]


def _use_title(use: list[UseLine], *, is_over: bool) -> str:
    measured = use and use[0].label != "Memory"
    if not measured:
        return "Its use was not measured" if is_over else "Its use is not measured"
    return f"{'It used' if is_over else 'It uses'} {use[0].value} of its {use[0].label}"


def _frac(subject: Subject, label: str, name: str) -> UseLine | None:
    course = _course(subject, name)
    if not course:
        return None
    return UseLine(label=label, course=list(course), value=f"{number(100 * fmean(course))}{NBSP}%", of="")


def _course(subject: Subject, name: str) -> list[float]:
    values = [float(value) for value in subject.series[name] if value is not None]
    return [values[index] for index in thin(len(values), most=POINTS)]


def _cost(subject: Subject, started: datetime, newest: Seen | None) -> tuple[str, str]:
    """Return what a preemption loses, as far as files tell."""
    survey = subject.few_files[0]
    is_saved = newest is not None and newest.changed_s > started.timestamp()
    since_s = subject.at.timestamp() - (newest.changed_s if newest and is_saved else started.timestamp())
    stays = f"{counted(survey.all.files, 'file')} in $CLUSTERWEB_JOB_DIR stay, {data_size(survey.all.num_bytes)}."
    if not survey.is_whole:
        stays = "What lies in $CLUSTERWEB_JOB_DIR stays."
    ends = "What it did since the newest of them is lost." if is_saved else "It has saved no file since it started."
    title = f"A preemption costs up to {duration(whole_s(max(1.0, since_s)))}"
    return title, f"It starts the command anew. {f'{stays} ' if survey.all.files else ''}{ends}"
