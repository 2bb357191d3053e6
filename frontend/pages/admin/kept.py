"""What the database keeps and for how long, for admins: read-only, as the settings of the installation have it."""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Sum
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from frontend.components.errors import page
from frontend.pages.admin.views import require_admin
from scheduler.core.model.lifecycle import JobState
from scheduler.models import JobDay, Sample
from scheduler.services.retention.policy import policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One kind of rows, as the table shows it."""

    title: str
    note: str
    days: int | None
    setting: str
    count: int
    oldest: datetime | None


@page
@require_safe
def kept(request: HttpRequest) -> HttpResponse:
    """Show each kind of rows with its age limit, how many there are, and the oldest."""
    require_admin(request)
    lines = [
        Line(
            title=one.title,
            note=one.note,
            days=one.days,
            setting=one.setting,
            count=one.all_rows.count(),
            oldest=one.all_rows.order_by(one.age).values_list(one.age, flat=True).first(),
        )
        for one in policy()
    ]
    lines.append(
        Line(
            title="Samples",
            note="of 1 s for an hour, of 10 s for a day, of 60 s then",
            days=30,
            setting="",
            count=Sample.objects.count(),
            oldest=Sample.objects.order_by("resolution_s", "at")
            .filter(resolution_s=60)
            .values_list("at", flat=True)
            .first(),
        )
    )
    removed = JobDay.objects.aggregate(jobs=Sum("num_jobs"), gpu_s=Sum("attained_gpu_s"))
    completed = JobDay.objects.filter(state=JobState.COMPLETED).aggregate(jobs=Sum("num_jobs"))
    context = {
        "lines": lines,
        "removed": removed["jobs"] or 0,
        "completed": completed["jobs"] or 0,
        "gpu_hours": (removed["gpu_s"] or 0.0) / 3_600,
    }
    return render(request, "admin/kept.html", context)
