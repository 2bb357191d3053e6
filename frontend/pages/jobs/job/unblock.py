"""Change what a waiting job asks for: a confirmation page, then the change."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from frontend.components.formats import joined
from frontend.pages.jobs.head import Action
from frontend.pages.jobs.job.views import job_frame
from frontend.pages.jobs.subject import Subject, subject_of
from scheduler.core.model.errors import Conflict, JobChanged, NotAllowed, NotFound, SpecInvalid
from scheduler.ports import live_ports
from scheduler.selectors.rows import Json
from scheduler.services.jobs.change import FIELDS, JobChange, job_change

NUMBERS = frozenset({"gpus", "min_gpus", "max_servers"})


def change_of(query: QueryDict) -> JobChange:
    """Return the change in an address; what is no number is left for the spec's parser to refuse."""
    change: Json = {}
    for name in FIELDS:
        text = query.get(name, "").strip()[:120]
        if text:
            is_number = name in NUMBERS or name == "cpus"
            change[name] = int(text) if is_number and text.isascii() and text.isdigit() and len(text) < 10 else text
    return change


@never_cache
@require_http_methods(["GET", "POST"])
def job_unblock(request: HttpRequest, job: str) -> HttpResponse:
    """Ask before a change, or make it."""
    subject = subject_of(request, job)
    change = change_of(request.GET)
    if request.method == "POST":
        _make(request, subject, change)
        return HttpResponseRedirect(f"{subject.path}/why")
    if not change or "cancel" not in subject.detail["actions"]:
        messages.error(
            request, f"{subject.job.name} is {subject.job.state}: nothing to change.", extra_tags=subject.job.name
        )
        return HttpResponseRedirect(f"{subject.path}/why")
    return render(request, "jobs/confirm.html", {**job_frame(subject, "why"), "asked": _question(subject, change)})


def _question(subject: Subject, change: JobChange) -> Action:
    asked = subject.job.spec["resources"]
    old = {"queue": subject.job.queue.name, **asked}
    many = subject.device.many
    nouns = {"gpus": many, "min_gpus": f"the least {many}", "max_servers": "servers", "cpus": "cores"}
    words = [f"{nouns.get(name, name)} from {old.get(name)} to {value}" for name, value in change.items()]
    name = subject.job.name
    return Action(
        key="unblock",
        icon="pencil",
        label="Change",
        title=f"Change what {name} asks for?",
        effect=f"It changes {joined(words)}. The job keeps its number and goes on waiting until the next round.",
        keep="Keep",
        verb=f"Change {subject.key}",
    )


def _make(request: HttpRequest, subject: Subject, change: JobChange) -> None:
    try:
        job_change(actor=request.user, job=subject.job, change=change, at=live_ports().clock.now())
    except SpecInvalid as invalid:
        messages.error(request, " ".join(error.detail for error in invalid.errors))
    except (Conflict, NotAllowed, NotFound) as refused:
        messages.error(request, str(refused))
    except JobChanged:
        messages.error(
            request,
            f"{subject.job.name} changed a moment ago. Look again, then repeat it.",
            extra_tags=subject.job.name,
        )
    else:
        messages.success(request, f"{subject.job.name} is changed. The next round looks at it again.")
