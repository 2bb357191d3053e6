"""Believes the end of an attempt that was given up with its server, when the server is heard again.

A job that had completed while its server was silent is over: it does not run once more. Of a gang each process has to
say so. Only while no newer attempt exists; once the job was granted again, what the former attempt says is history.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from django.db import transaction

from agents.protocol.signing import AttemptReport
from scheduler.core.model.errors import JobChanged
from scheduler.core.model.lifecycle import EndCause, JobState
from scheduler.models import Attempt, GangMember, Lease, Server
from scheduler.services.jobs.state import job_transition

DETAIL = "It had completed while its server was silent."


def late_ends_take(server: Server, strangers: Iterable[AttemptReport], *, at: datetime) -> None:
    """Complete the jobs of which ``server`` reports, after it was given up, that they had completed there."""
    ended = {said.attempt_id: said for said in strangers if said.phase == "ended" and said.end_cause == "completed"}
    if not ended:
        return
    held = Lease.objects.filter(
        server=server, attempt_id__in=ended, attempt__gang=None, attempt__end_cause=EndCause.SERVER_LOST
    )
    whole = set(held.values_list("attempt_id", flat=True)) | _gangs_whole(server, ended)
    for attempt in Attempt.objects.filter(pk__in=whole).select_related("job").order_by("pk"):
        # A leader on another server said so earlier: its last step is the one that it reported before the silence.
        said = ended.get(attempt.pk) or AttemptReport(attempt_id=attempt.pk, phase="ended", exit_code=0)
        _complete(attempt, said, actor=f"agent {server.name}", at=at)


def _gangs_whole(server: Server, ended: Mapping[str, AttemptReport]) -> set[str]:
    """Record which processes of gangs had completed; return the gangs of which by now all had."""
    here = GangMember.objects.filter(
        pk__in=ended, gpu__server=server, end_cause=EndCause.SERVER_LOST, gang__attempt__job__state=JobState.QUEUED
    )
    gangs = set(here.values_list("gang_id", flat=True))
    here.update(end_cause=EndCause.COMPLETED, end_detail=DETAIL, exit_code=0, failure="", failure_line="")
    stayed = GangMember.objects.filter(gang__in=gangs, leaving=False)
    return gangs - set(stayed.exclude(end_cause=EndCause.COMPLETED).values_list("gang_id", flat=True))


def _complete(attempt: Attempt, said: AttemptReport, *, actor: str, at: datetime) -> None:
    job = attempt.job
    is_newest = not Attempt.objects.filter(job=job, number__gt=attempt.number).exists()
    if not is_newest or job.state != JobState.QUEUED or job.wanted != "run":
        return
    changes: dict[str, Any] = {"end_cause": EndCause.COMPLETED, "end_detail": DETAIL}
    if said.step is not None and said.step >= (attempt.last_step or 0):
        attempt.last_step = said.step
        changes |= {"step": said.step, "loss": said.loss}
    attempt.end_cause, attempt.end_detail, attempt.exit_code = EndCause.COMPLETED, DETAIL, said.exit_code
    attempt.failure = attempt.failure_line = ""
    attempt.lost_s = None
    columns = ["end_cause", "end_detail", "exit_code", "failure", "failure_line", "lost_s", "last_step"]
    data = {"attempt": attempt.number, "detail": DETAIL, "exit_code": said.exit_code}
    try:
        with transaction.atomic():
            job_transition(
                job=job, to=JobState.COMPLETED, at=at, actor=actor, reason="completed", data=data, changes=changes
            )
            attempt.save(update_fields=columns)
    except JobChanged:
        return  # granted, cancelled or suspended at this moment
