"""Takes in what a server says of its Python environments: a server's word counts for itself alone.

A report holds all that the server has, so that a row which it lacks says that the environment is gone. Nothing here
ends a job; ``wanted.py`` looks at the rows a moment later.
"""

from collections.abc import Sequence
from datetime import datetime

from django.db import transaction
from django.db.models import F

from agents.protocol.environments import EnvironmentReport
from scheduler.core.model.lifecycle import JobState
from scheduler.models import Environment, Job, ServerEnvironment
from scheduler.models.server import EnvironmentState
from scheduler.notify import request_round, touch_job

MOST_FAULTS = 1_000  # the count of failures of one environment stops here
TOUCHED_MOST = 50  # jobs whose live pages one report wakes


@transaction.atomic
def environments_take(server_id: str, reports: Sequence[EnvironmentReport], *, at: datetime) -> None:
    """Write how the environments of a server stand."""
    rows = {row.environment_id: row for row in ServerEnvironment.objects.select_for_update().filter(server=server_id)}
    named = {said.digest: said for said in reports}
    unknown = [digest for digest in named if digest not in rows]
    # An environment that the server kept from earlier jobs serves as well as one that was asked for.
    for digest in Environment.objects.filter(pk__in=unknown).values_list("pk", flat=True):
        if named[digest].state == "ready":
            rows[digest] = ServerEnvironment(
                environment_id=digest, server_id=server_id, is_wanted=False, asked_at=at, changed_at=at
            )
    changed = []
    for digest, row in rows.items():
        said = named.get(digest)
        if said is not None and _applies(row, said):
            changed += [digest] if _take(row, said, at=at) else []
        elif said is None and row.state not in (EnvironmentState.ASKED, EnvironmentState.FAILED):
            _gone(row, at=at)
            changed.append(digest)
    if changed:
        waiting = Job.objects.filter(environment__in=changed, state=JobState.QUEUED).order_by("number")
        for pk in waiting.values_list("pk", flat=True)[:TOUCHED_MOST]:
            touch_job(pk)


def _applies(row: ServerEnvironment, said: EnvironmentReport) -> bool:
    """Return whether a report answers this request: a failure counts only for the very one that was asked."""
    return row.state != EnvironmentState.FAILED and (said.state != "failed" or said.ask == row.pk)


def _take(row: ServerEnvironment, said: EnvironmentReport, *, at: datetime) -> bool:
    """Write what was said; return whether anything changed."""
    columns = {
        "state": EnvironmentState(said.state),
        "detail": said.detail,
        "done": said.done,
        "total": said.total,
        "tail": said.tail,
        "num_bytes": said.num_bytes,
        "build_s": said.build_s,
        "is_passing": said.is_passing,
    }
    if row.pk is not None and all(getattr(row, name) == value for name, value in columns.items()):
        return False
    if row.state != said.state:
        row.changed_at = at
        if said.state in ("ready", "failed"):
            request_round("environment")
            faults = F("faults") + 1 if said.is_passing else 0
            Environment.objects.filter(pk=row.environment_id, faults__lt=MOST_FAULTS).update(faults=faults)
    for name, value in columns.items():
        setattr(row, name, value)
    row.save()
    return True


def _gone(row: ServerEnvironment, *, at: datetime) -> None:
    """Note that the server no longer has it, or no longer builds it: it is asked for again while it is wanted."""
    if not row.is_wanted:
        row.delete()
        return
    row.state, row.changed_at, row.detail, row.tail = EnvironmentState.ASKED, at, "", ""
    row.done = row.total = None
    row.save()
