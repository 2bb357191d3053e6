"""Keep the files of an ended job longer than its queue does: a form with a date, and the way back."""

from datetime import datetime, time

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from frontend.components.formats import clock, counted
from frontend.pages.jobs.job.views import job_frame
from frontend.pages.jobs.subject import Subject, subject_of
from scheduler.core.model.errors import Conflict, JobChanged, NotAllowed, NotFound, SpecInvalid
from scheduler.ports import live_ports
from scheduler.selectors.directories import KEPT_AHEAD, directory_kept_until, kept_for, queue_keeps_until
from scheduler.services.jobs.directory import MORE_DAYS, job_keep, kept_more


class KeepForm(forms.Form):
    """Until when."""

    until = forms.DateField(
        label="Keep until",
        help_text="Last day, up to a year ahead.",
        widget=forms.DateInput(attrs={"type": "date", "autocomplete": "off"}),
    )


@never_cache
@require_http_methods(["GET", "POST"])
def job_keep_files(request: HttpRequest, job: str) -> HttpResponse:
    """Ask for a date, or set it."""
    subject = subject_of(request, job)
    back = HttpResponseRedirect(f"{subject.path}/files")
    if "keep" not in subject.detail["actions"]:
        messages.error(
            request, f"{subject.job.name} has no files that you may keep longer now.", extra_tags=subject.job.name
        )
        return back
    if request.POST.get("do") == "undo":
        _make(request, subject, None)
        return back
    more = kept_more(subject.job, days=MORE_DAYS, at=subject.at)
    default = min(more, subject.at + KEPT_AHEAD).astimezone(subject.zone).date()
    form = KeepForm(request.POST or None, initial={"until": default.isoformat()})
    if form.is_valid():
        wrong = _make(request, subject, datetime.combine(form.cleaned_data["until"], time(23, 59, 59), subject.zone))
        if not wrong:
            return back
        form.add_error("until", wrong)
    kept, by_queue = directory_kept_until(subject.job), queue_keeps_until(subject.job)
    queue = subject.job.queue
    context = {
        **job_frame(subject, "files"),
        "form": form,
        "kept": kept,
        "by_queue": by_queue if by_queue and kept != by_queue and by_queue > subject.at else None,
        "days": counted(kept_for(queue).days, "day"),
        "is_limited": queue.directories_most_bytes or queue.user_directories_most_bytes,
    }
    return render(request, "jobs/keep.html", context, status=422 if form.errors else 200)


def _make(request: HttpRequest, subject: Subject, until: datetime | None) -> str:
    """Set the date, and leave a message of what came of it. Returns what is wrong with the date."""
    try:
        changed = job_keep(
            actor=request.user, job=subject.job, until=until, at=live_ports().clock.now(), zone=subject.zone
        )
    except SpecInvalid as refused:
        return refused.errors[0].detail
    except (Conflict, NotAllowed, NotFound) as refused:
        messages.error(request, str(refused))
    except JobChanged:
        messages.error(
            request,
            f"{subject.job.name} changed a moment ago. Look again, then repeat it.",
            extra_tags=subject.job.name,
        )
    else:
        kept = directory_kept_until(changed)
        assert kept is not None
        messages.success(
            request, f"The files of {changed.name} are kept until {clock(kept, subject.at, subject.zone)}."
        )
    return ""
