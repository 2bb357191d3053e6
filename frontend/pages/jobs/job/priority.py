"""Change the priority of a job: a form, then the change."""

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from frontend.components.formats import number
from frontend.pages.jobs.job.views import job_frame
from frontend.pages.jobs.subject import Subject, subject_of
from scheduler.core.model.errors import Conflict, JobChanged, NotAllowed, NotFound
from scheduler.core.round.capabilities import ReadsPriority
from scheduler.core.spec.limits import PRIORITY
from scheduler.policies import POLICIES
from scheduler.policies.priority import Priority
from scheduler.ports import live_ports
from scheduler.services.cluster.settings import cluster_row
from scheduler.services.jobs.priority import job_reprioritise as reprioritise


class PriorityForm(forms.Form):
    """The new priority."""

    priority = forms.IntegerField(
        min_value=PRIORITY[0], max_value=PRIORITY[1], help_text=f"{PRIORITY[0]} to {PRIORITY[1]}, larger first."
    )


@never_cache
@require_http_methods(["GET", "POST"])
def job_reprioritise(request: HttpRequest, job: str) -> HttpResponse:
    """Ask for a new priority, or set it."""
    subject = subject_of(request, job)
    if "cancel" not in subject.detail["actions"] and request.method != "POST":
        messages.error(
            request,
            f"{subject.job.name} is {subject.job.state}: its priority is not yours to change.",
            extra_tags=subject.job.name,
        )
        return HttpResponseRedirect(subject.path)
    form = PriorityForm(request.POST or None, initial={"priority": subject.job.priority})
    if request.method == "POST" and form.is_valid():
        _make(request, subject, form.cleaned_data["priority"])
        return HttpResponseRedirect(subject.path)
    context = {**job_frame(subject, "overview"), "form": form, "policy": _policy_words()}
    return render(request, "jobs/priority.html", context, status=422 if form.errors else 200)


def _policy_words() -> str:
    """Return what the policy in force makes of priorities: with most of them a new one changes nothing now."""
    policy = cluster_row().policy
    made = POLICIES[policy]() if policy in POLICIES else None
    if isinstance(made, ReadsPriority) and made.reads_priority:
        return "The policy in force looks at it: the next round goes by the new one."
    return f"{policy} decides now and does not look at it. It counts once an admin chooses the policy {Priority.name}."


def _make(request: HttpRequest, subject: Subject, priority: int) -> None:
    try:
        reprioritise(actor=request.user, job=subject.job, priority=priority, at=live_ports().clock.now())
    except (Conflict, NotAllowed, NotFound) as refused:
        messages.error(request, str(refused))
    except JobChanged:
        messages.error(
            request,
            f"{subject.job.name} changed a moment ago. Look again, then repeat it.",
            extra_tags=subject.job.name,
        )
    else:
        messages.success(request, f"{subject.job.name} has priority {number(priority)} from the next round on.")
