"""The job list: filters in the URL, one row a job, actions on several jobs at once."""

from collections import Counter
from dataclasses import dataclass, replace
from datetime import datetime
from urllib.parse import urlencode

from django.contrib import messages
from django.db.models import Count
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from frontend.components.devices import DeviceWord, device_word
from frontend.components.formats import clock, counted, duration, number, whole_s
from frontend.components.times import as_time_or_none
from frontend.components.viewer import now_utc, viewer_zone
from frontend.pages.jobs.charts.progress import ends_at
from frontend.pages.jobs.charts.timeline import CAUSES
from frontend.pages.jobs.job.views import done_words, undo_tags
from frontend.pages.jobs.listing.columns import column_boxes
from frontend.pages.jobs.listing.filters import GROUPS, MINE, SORTS, ListQuery, jobs_page, list_query
from frontend.pages.jobs.subject import found_job, them
from frontend.pages.jobs.submit.preview import curl_of_spec
from scheduler.core.model.lifecycle import HOLDING, PREPARING, TERMINAL, WAITING, JobState, phase_of
from scheduler.core.spec.limits import PRIORITY
from scheduler.models import Job
from scheduler.ports import live_ports
from scheduler.selectors.cluster.servers import device_kinds
from scheduler.selectors.jobs.estimates import estimates_of
from scheduler.selectors.jobs.kept import kept_sentence
from scheduler.selectors.jobs.listing import JobFilters, job_list, job_row
from scheduler.selectors.jobs.reason_rows import EstimateRow
from scheduler.selectors.jobs.rows import JobRow
from scheduler.selectors.queues.saved import views_of
from scheduler.selectors.visibility import Access, access_of, queues_submittable, queues_visible
from scheduler.services.jobs.bulk import MOST_JOBS, BulkOutcome, jobs_act

MOST_GROUPS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Bulk:
    """One thing to do with several jobs.

    Attributes:
        holding: The effect on jobs that hold devices; ``{}`` are these.
        idle: The effect when none of them holds any.
    """

    action: str
    verb: str
    icon: str
    holding: str
    idle: str
    danger: bool = False

    def effect(self, held: str) -> str:
        """Return what it does to jobs that hold so many devices, "" for none."""
        return self.holding.format(held) if held else self.idle


BULK = {
    bulk.action: bulk
    for bulk in (
        Bulk(
            action="suspend",
            verb="Suspend",
            icon="pause",
            holding="They write a checkpoint and give {} back. They go on from there when you resume them.",
            idle="They hold nothing now. They start nothing until you resume them.",
        ),
        Bulk(
            action="resume",
            verb="Resume",
            icon="play",
            holding="They go on, or wait again for their place. {} stay with those that hold them.",
            idle="They wait again for their place, and go on from their checkpoints.",
        ),
        Bulk(
            action="cancel",
            verb="Cancel",
            icon="ban",
            holding="They give {} back. Cancelled jobs do not start again.",
            idle="They hold nothing now. Cancelled jobs do not start again.",
            danger=True,
        ),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobListRow:
    """One row of the table.

    Attributes:
        row: The job as the selector tells it.
        detail: Reason or outcome in words; empty where a progress bar stands.
        waited_since, ran_since: Times that a script counts from; None stands still.
        ends: When it starts, when it ends at its present rate, or when it ended; empty where unknown.
    """

    row: JobRow
    detail: str
    waited_s: float
    waited_since: datetime | None
    ran_s: float | None
    ran_since: datetime | None
    ends: str
    may_pick: bool
    held_gpus: int


@never_cache
@require_safe
def jobs(request: HttpRequest) -> HttpResponse:
    """Show a page of the jobs that match."""
    query = list_query(request.GET)
    page = jobs_page(request, query)
    queues = list(queues_visible(request.user).order_by("name"))
    device = device_word(device_kinds(request.user))
    counts = _counts(request, query)
    access = access_of(request.user)
    estimates = estimates_of(job for job in page.jobs if job.state == JobState.QUEUED)
    lines = [_line(request, job, access, device, estimates.get(job.pk)) for job in page.jobs]
    shown = sum(counts[state] for state in _states(query)) - (counts[PREPARING] if query.state == "queued" else 0)
    return render(
        request,
        "jobs/jobs.html",
        {
            "query": query,
            "rest_filters": query.rest_filters(request),
            "device": device,
            "lines": lines,
            "columns": query.columns if any(line.ends for line in lines) else set(query.columns) - {"ends"},
            "boxes": column_boxes(query.columns, devices=device.many[:1].upper() + device.many[1:]),
            "may_pick": any(line.may_pick for line in lines),
            "groups": _groups(query, counts),
            "queues": queues,
            "title": _title(counts),
            "total": number(sum(counts[state] for state in JobState)),
            "words": f"{number(len(lines))} of {counted(shown, 'job')}",
            "older_href": _href(query, **{"page" if query.sort else "older_than": page.older_than}),
            "newer_href": _href(query, **{"page" if query.sort else "newer_than": page.newer_than}),
            "pages": ("Before", "Next") if query.sort else ("Newer", "Older"),
            "heads": _heads(query),
            "sorted_words": _sorted_words(query),
            "is_empty": not sum(counts.values()) and not query.is_narrowed,
            "all_jobs": number(job_list(request.user, JobFilters()).count()) if not lines else "",
            "live_groups": ",".join(f"queue.{queue.pk}" for queue in queues[:MOST_GROUPS]),
            "first_curl": _first_curl(request) if not lines else "",
            "mine": MINE,
            "bulks": BULK.values(),
            "priorities": PRIORITY,
            "views": views_of(request.user),
        },
    )


def _first_curl(request: HttpRequest) -> str:
    """Return a command that submits a first job."""
    queue = queues_submittable(request.user).order_by("name").first()
    name = queue.name if queue else "my-queue"
    return curl_of_spec(request, {"apiVersion": "v1", "name": "first-job", "queue": name, "command": ["date"]})


def _counts(request: HttpRequest, query: ListQuery) -> Counter[str]:
    """Return how many jobs match in each state, whatever state is chosen, by one query."""
    every = replace(query.filters(request), states=(), is_preparing=False, but_preparing=False)
    states = job_list(request.user, every).order_by().values_list("state", "wait_reason").annotate(jobs=Count("pk"))
    counts: Counter[str] = Counter()
    for state, reason, jobs in states:
        counts[state] += jobs
        counts[PREPARING] += jobs if phase_of(state, reason) == PREPARING else 0
    return counts


def _states(query: ListQuery) -> tuple[str, ...]:
    if query.state == PREPARING:
        return (PREPARING,)
    if query.state in GROUPS:
        return GROUPS[query.state][1] or tuple(JobState)
    return (JobState(query.state),)


def _title(counts: Counter[str]) -> tuple[str, str]:
    """Return the finding: how many jobs run and how many wait."""
    running, waiting = (sum(counts[state] for state in states) for states in (HOLDING, WAITING))
    if running and waiting:
        return (
            f"{counted(running, 'job')} {'runs' if running == 1 else 'run'}",
            f"and {number(waiting)} {'waits' if waiting == 1 else 'wait'}",
        )
    if running:
        return f"{counted(running, 'job')} {'runs' if running == 1 else 'run'}", "and none waits"
    if waiting:
        return f"{counted(waiting, 'job')} {'waits' if waiting == 1 else 'wait'}", "and none runs"
    return "No job runs or waits", ""


def _groups(query: ListQuery, counts: Counter[str]) -> list[tuple[str, str, str, bool]]:
    """Return label, address, count and whether chosen, for each group of states that has jobs or is chosen."""
    made = []
    for key, (label, states) in GROUPS.items():
        total = counts[PREPARING] if key == PREPARING else sum(counts[state] for state in states or JobState)
        total -= counts[PREPARING] if key == "queued" else 0  # each job in one count
        if total or key in ("", "active") or key == query.state:
            made.append((label, _href(query, state=key) or "?", number(total), key == query.state))
    return made


def _href(query: ListQuery, **changes: object) -> str:
    """Return the address of this list with changes; "" where a change is None."""
    if None in changes.values():
        return ""
    kept = {"state": query.state, "queue": query.queue, "owner": query.owner, "search": query.search}
    kept |= {"sort": query.sort}
    kept |= {"idle": "true" if query.is_idle else "", "columns": query.columns_text}
    given = {name: value for name, value in {**kept, **changes}.items() if value not in ("", None)}
    return f"?{urlencode(given)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SortHead:
    """The head of a column that the list can be sorted by: where it leads, and how it is sorted now."""

    href: str
    aria: str
    arrow: str


def _heads(query: ListQuery) -> dict[str, SortHead]:
    """Return the heads: names begin with A, numbers with the largest; a second click turns them round."""
    made = {}
    for key in SORTS:
        first = key if key == "name" else f"-{key}"
        turned = key if first != key else f"-{key}"
        is_up, is_down = query.sort == key, query.sort == f"-{key}"
        made[key] = SortHead(
            href=_href(query, sort=turned if query.sort == first else first),
            aria="ascending" if is_up else "descending" if is_down else "none",
            arrow="arrow-up" if is_up else "arrow-down" if is_down else "",
        )
    return made


def _sorted_words(query: ListQuery) -> str:
    """Return how the list is sorted, for its caption."""
    if not query.sort:
        return "newest first"
    ways = {"name": ("A first", "Z first"), "submitted": ("oldest first", "newest first")}
    up, down = ways.get(query.sort.removeprefix("-"), ("smallest first", "largest first"))
    return f"by {query.sort.removeprefix('-')}, {down if query.sort.startswith('-') else up}"


def _line(
    request: HttpRequest, job: Job, access: Access, device: DeviceWord, estimate: EstimateRow | None
) -> JobListRow:
    now, zone = now_utc(), viewer_zone(request)
    row, state = job_row(job), JobState(job.state)
    since_change_s = max(0.0, (now - job.state_changed_at).total_seconds())
    is_waiting, is_running = state is JobState.QUEUED, state is JobState.RUNNING
    waited_s = whole_s(job.queueing_s + (since_change_s if is_waiting else 0.0))
    ran_s = whole_s(job.executed_s + (since_change_s if is_running else 0.0))
    at = ends_at(step=job.step, total_steps=job.total_steps, steps_per_s=job.steps_per_s, now=now)
    ends = f"about {clock(at, now, zone)}" if at is not None and is_running else ""
    starts_at = as_time_or_none(estimate["p50_at"]) if estimate else None
    if is_waiting and starts_at is not None:
        ends = f"starts about {clock(starts_at, now, zone)}"
    return JobListRow(
        row=row,
        detail=_detail(job, row, device, now),
        waited_s=waited_s,
        waited_since=_counted_from(now, waited_s) if is_waiting else None,
        ran_s=ran_s if job.first_started_at else None,
        ran_since=_counted_from(now, ran_s) if is_running else None,
        ends=ends or (clock(job.ended_at, now, zone) if job.ended_at else ""),
        may_pick=state not in TERMINAL and job.wanted != "cancel" and _may_act(request, job, access),
        held_gpus=job.num_gpus if state in HOLDING else 0,
    )


def _counted_from(now: datetime, seconds: float) -> datetime:
    return datetime.fromtimestamp(now.timestamp() - seconds, tz=now.tzinfo)


def _may_act(request: HttpRequest, job: Job, access: Access) -> bool:
    """Return what ``may_act_on_job`` would, out of roles that are read once for all rows."""
    role = access.role(job.queue_id)
    return role == "lead" or (role == "member" and job.owner_id == request.user.pk)


def _detail(job: Job, row: JobRow, device: DeviceWord, now: datetime) -> str:
    """Return why it waits or how it ended, in words; a job that trains has a bar instead."""
    state = JobState(job.state)
    if state is JobState.QUEUED:
        return device.said(row["wait_sentence"])
    if state is JobState.RUNNING and job.idle_since is not None:
        return f"Has not used its {device.named(job.num_gpus)} for {duration((now - job.idle_since).total_seconds())}"
    if state is JobState.SUSPENDED and job.idle_since is not None:
        return f"Suspended: it held {device.counted(job.num_gpus)} without using {them(job.num_gpus)}"
    if state is JobState.SUSPENDED:
        return "Suspended until it is resumed"
    at_step = f" at step {number(job.step)}" if job.step is not None else ""
    if state is JobState.LAUNCHING:
        return f"Continues from step {number(job.checkpoint_step)}" if job.checkpoint_step else "Starts"
    if state is JobState.COMPLETED:
        return f"Completed{at_step}"
    if state is JobState.CANCELLED:
        return f"Cancelled{at_step}"
    if state is JobState.FAILED:
        cause = CAUSES.get(job.end_cause, "Failed")
        return f"{cause}{at_step}" + (f": {job.end_detail}" if job.end_detail else "")
    return ""


@require_POST
def jobs_act_on(request: HttpRequest, action: str) -> HttpResponse:
    """Do the same with the chosen jobs; suspend, resume and cancel are confirmed on a page first."""
    keys = list(dict.fromkeys(request.POST.getlist("job")))[:MOST_JOBS]
    back = "/jobs?" + request.POST.get("back", "").lstrip("?")[:500]
    chosen = [found_job(request, key) for key in keys]
    if not chosen:
        return HttpResponseRedirect(back)
    priority = request.POST.get("priority", "")
    if action == "reprioritise" and not (priority.isdecimal() and PRIORITY[0] <= int(priority) <= PRIORITY[1]):
        messages.error(
            request, f"A priority is a whole number from {PRIORITY[0]} to {PRIORITY[1]}. Nothing was changed."
        )
        return HttpResponseRedirect(back)
    if action in BULK and request.POST.get("confirmed") != "yes":
        held = sum(job.num_gpus for job in chosen if JobState(job.state) in HOLDING)
        device = device_word(device_kinds(request.user))
        bulk = BULK[action]
        context = {"chosen": chosen, "bulk": bulk, "effect": bulk.effect(device.counted(held) if held else "")}
        return render(request, "jobs/confirm_many.html", context | {"back": back})
    outcomes = jobs_act(
        actor=request.user,
        keys=[job.pk for job in chosen],
        action=action,
        at=live_ports().clock.now(),
        priority=int(priority) if action == "reprioritise" else None,
    )
    _tell(request, action, outcomes, {job.pk: job.name for job in chosen})
    return HttpResponseRedirect(back)


# Jobs whose kept work one message tells of.
MOST_TOLD = 3
PLURALS = (("is ", "are "), ("has ", "have "), ("waits ", "wait "), ("goes ", "go "))


def _tell(request: HttpRequest, action: str, outcomes: list[BulkOutcome], names: dict[str, str]) -> None:
    """Leave one message for all jobs with the same outcome, and one for each refusal."""
    done: dict[str, list[Job]] = {}
    for outcome in outcomes:
        if outcome.refused or outcome.job is None:
            messages.error(request, f"{names[outcome.key]}: {outcome.refused}", extra_tags=names[outcome.key])
        else:
            done.setdefault(done_words(action, outcome.job), []).append(outcome.job)
    for words, changed in done.items():
        if len(changed) > 1:
            for one, many in PLURALS:
                words = words.replace(one, many, 1) if words.startswith(one) else words
        named = changed[0].name if len(changed) == 1 else counted(len(changed), "job")
        undo = undo_tags(changed) if action == "cancel" else ""
        kept = _kept_words(changed) if action in ("cancel", "suspend") else ""
        messages.success(request, f"{named} {words}.{kept}", extra_tags=undo)


def _kept_words(jobs: list[Job]) -> str:
    """Return what the first of the jobs have kept and what is lost; their pages say it of the others."""
    now = now_utc()
    told = [(job, kept_sentence(job, now)) for job in jobs[:MOST_TOLD]]
    return "".join(f" {job.name}: {kept}" if len(jobs) > 1 else f" {kept}" for job, kept in told if kept)
