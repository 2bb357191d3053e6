"""A job's page: head and one tab, rendered whole on the server; scripts only refresh it."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypedDict

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, StreamingHttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from frontend.components.devices import DeviceWord
from frontend.pages.jobs.files.removal import removal_asked
from frontend.pages.jobs.head import Action, TimePhrase, actions, moment, place_words
from frontend.pages.jobs.job.tabs import TABS, Tab, bar_of, parts_of
from frontend.pages.jobs.logs.log_view import download_headers, whole
from frontend.pages.jobs.subject import Subject, found_job, subject_of
from scheduler.core.model.errors import Conflict, InvalidTransition, JobChanged, NotAllowed, NotFound, SpecInvalid
from scheduler.core.model.lifecycle import TERMINAL, JobState
from scheduler.models import Job
from scheduler.ports import live_ports
from scheduler.selectors.files.archive import MOST_PATHS
from scheduler.selectors.jobs.kept import kept_sentence
from scheduler.selectors.jobs.logs import log_open
from scheduler.selectors.jobs.rows import JobDetail
from scheduler.services.jobs.cancel_suspend_resume import job_cancel, job_resume, job_suspend
from scheduler.services.jobs.directory import job_discard
from scheduler.services.jobs.profiles import profile_measure_again
from scheduler.services.jobs.restore import job_restore

SERVICES: dict[str, tuple[Callable[..., Job], str]] = {  # all have one signature
    "cancel": (job_cancel, "is cancelled"),
    "suspend": (job_suspend, "is suspended"),
    "resume": (job_resume, "waits to run again"),
    "restore": (job_restore, "is as it was before it was cancelled"),
    "discard": (job_discard, "gives its space back: its directory is being removed"),
}
ASKED = {"cancel": "is asked to stop", "suspend": "is asked to checkpoint and stop", "resume": "goes on"}


@never_cache
@require_safe
def job_page(request: HttpRequest, job: str, tab: str = "overview") -> HttpResponse:
    """Show one tab of a job."""
    if tab not in TABS:
        raise Http404(f"A job has no tab {tab[:40]}.")
    subject = subject_of(request, job)
    return render(request, f"jobs/tab_{tab}.html", {**job_frame(subject, tab), **TABS[tab].context(subject)})


class JobFrame(TypedDict):
    """The variables of the head of a job's page."""

    subject: Subject
    job: Job
    detail: JobDetail
    device: DeviceWord
    place: str
    moment: TimePhrase
    actions: list[Action]
    may_reprioritise: bool
    tab: str
    tabs: list[tuple[Tab, int | None]]
    parts: list[tuple[Tab, int | None]]
    log_url: str


def job_frame(subject: Subject, tab: str) -> JobFrame:
    """Return the variables of the head of a job's page."""
    return {
        "subject": subject,
        "job": subject.job,
        "detail": subject.detail,
        "device": subject.device,
        "place": place_words(subject),
        "moment": moment(subject),
        "actions": actions(subject),
        "may_reprioritise": "cancel" in subject.detail["actions"],
        "tab": tab,
        "tabs": [(item, None if item.group else item.count(subject)) for item in bar_of(tab)],
        "parts": [(item, item.count(subject)) for item in parts_of(tab)],
        "log_url": f"/api/v1/jobs/{subject.job.pk}/logs",
    }


@never_cache
@require_http_methods(["GET", "POST"])
def job_action(request: HttpRequest, job: str, action: str) -> HttpResponse:
    """Cancel, suspend or resume a job. GET asks first, for browsers without scripts."""
    subject = subject_of(request, job)
    if action == "discard" and {"path", "chosen"} & request.GET.keys():
        return _files_discard(request, subject, request.GET.getlist("path"))
    if request.method == "POST":
        act(request, subject.job, action)
        return HttpResponseRedirect(subject.path)
    asked = next((item for item in actions(subject) if item.key == action), None)
    if asked is None:
        messages.error(
            request, f"{subject.job.name} is {subject.job.state}: nothing to {action}.", extra_tags=subject.job.name
        )
        return HttpResponseRedirect(subject.path)
    return render(request, "jobs/confirm.html", {**job_frame(subject, "overview"), "asked": asked})


def _files_discard(request: HttpRequest, subject: Subject, paths: list[str]) -> HttpResponse:
    """Delete files that the address names; GET asks first."""
    job, back = subject.job, HttpResponseRedirect(f"{subject.path}/files")
    try:
        if not paths:
            messages.error(request, "Tick the files to delete.")
        elif len(paths) > MOST_PATHS:
            messages.error(request, f"At most {MOST_PATHS} are deleted at once. Tick a folder instead.")
        elif request.method == "POST":
            job_discard(actor=request.user, job=job, at=live_ports().clock.now(), paths=paths)
            messages.success(
                request, f"Chosen files of {job.name} are being deleted. A server does it within a minute."
            )
        elif "discard" in subject.detail["actions"]:
            asked = removal_asked(subject, paths)
            return render(
                request,
                "jobs/confirm.html",
                {**job_frame(subject, "overview"), "asked": asked, "back": f"{subject.path}/files"},
            )
        elif JobState(job.state) not in TERMINAL:
            messages.error(request, f"{job.name} is {job.state}: its files are not deleted.", extra_tags=job.name)
        elif job.directory_bytes is None or job.directory_removal_at is not None:
            messages.error(request, f"{job.name} has no files to delete.", extra_tags=job.name)
        else:
            messages.error(
                request,
                f"Only the owner of {job.name} and leads of its queue may delete its files.",
                extra_tags=job.name,
            )
    except (Conflict, NotAllowed, NotFound, JobChanged) as refused:
        messages.error(request, str(refused))
    return back


@require_POST
def profile_measure(request: HttpRequest, job: str) -> HttpResponse:
    """Have the profile of a job measured again with its next attempt."""
    found = found_job(request, job)
    try:
        fingerprint = found.profile.fingerprint if found.profile else ""
        profile_measure_again(actor=request.user, fingerprint=fingerprint, at=live_ports().clock.now())
    except (NotAllowed, NotFound) as refused:
        messages.error(request, str(refused))
    else:
        messages.success(request, "It is measured again with the next attempt.")
    return HttpResponseRedirect(f"/jobs/J-{found.number}/profile")


def act(request: HttpRequest, job: Job, action: str) -> bool:
    """Do it, and leave a message of what came of it. Returns whether it was done."""
    service, _ = SERVICES[action]
    try:
        changed = service(actor=request.user, job=job, at=live_ports().clock.now())
    except (Conflict, NotAllowed, NotFound, SpecInvalid) as refused:
        messages.error(request, str(refused))
    except (InvalidTransition, JobChanged):
        messages.error(request, f"{job.name} changed a moment ago. Look again, then repeat it.", extra_tags=job.name)
    else:
        undo = undo_tags([changed]) if action == "cancel" else ""
        kept = f" {kept_sentence(changed, live_ports().clock.now())}" if action in ("cancel", "suspend") else ""
        messages.success(request, f"{job.name} {done_words(action, changed)}.{kept}".rstrip(), extra_tags=undo)
        return True
    return False


def undo_tags(cancelled: Sequence[Job]) -> str:
    """Return what lets a message offer to take cancels back: of jobs that waited, which end at once."""
    return " ".join(f"J-{job.number}" for job in cancelled if job.state == JobState.CANCELLED)


def done_words(action: str, changed: Job) -> str:
    """Return what a job now is or is asked for, to go after its name."""
    if action == "reprioritise":
        return f"has priority {changed.priority} from the next round on"
    if action == "discard":
        return SERVICES[action][1]
    ends = {"cancel": ["cancelled"], "suspend": ["suspended"], "resume": ["queued"], "restore": ["queued", "suspended"]}
    is_done = changed.state in ends[action]
    return SERVICES[action][1] if is_done else ASKED.get(action, f"is {changed.state}")


@require_safe
def job_log_download(request: HttpRequest, job: str, attempt: int) -> StreamingHttpResponse:
    """Send the whole kept log of an attempt as a file."""
    found = found_job(request, job)
    chosen, rank = found.attempts.filter(number=attempt).first(), whole(request.GET.get("rank", ""))
    if chosen is None:
        raise Http404(f"J-{found.number} has no attempt {attempt}.")

    def pieces() -> Iterator[bytes]:
        try:
            with log_open(chosen, rank=rank) as log:
                yield from log.pieces()
        except OSError:  # none yet, or a job has put something else in its place
            yield b""

    return StreamingHttpResponse(
        pieces(), content_type="text/plain; charset=utf-8", headers=download_headers(found.number, attempt, rank)
    )
