"""How the Python environment of a job stands: where it is built, how far that is, which jobs wait for it."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, TypedDict

from scheduler.core.model.lifecycle import PREPARING, EndCause, JobState, phase_of
from scheduler.models import Event, Job, ServerEnvironment
from scheduler.models.server import EnvironmentState
from scheduler.selectors.rows import Moment, NamedJob, one_of
from scheduler.selectors.times import iso
from scheduler.selectors.visibility import Access

MOST_WAITING = 20
# When a failed build is forgotten, and so tried again where jobs still wait: by its files' fault after so long ...
TRIED_AGAIN_AFTER = timedelta(minutes=10)
# ... by a fault that may pass after these, the last of them for all that follow.
BACK_OFF = (timedelta(minutes=1), timedelta(minutes=2), timedelta(minutes=5), timedelta(minutes=10))


class BuildRow(TypedDict):
    """A Python environment on one server."""

    server_id: str
    server: Annotated[str, "Name of the server."]
    python: Annotated[str, "Version of Python that it is made with."]
    state: Annotated[str, one_of(EnvironmentState)]
    asked_at: Moment
    changed_at: Annotated[Moment, "When it entered this state."]
    done: Annotated[int | None, "Packages that are installed."]
    total: Annotated[int | None, "Packages that it will have; null while they are not resolved."]
    detail: Annotated[str, "What it waits for, or why it failed."]
    again_at: Annotated[Moment | None, "When a build is tried again that failed by no fault of its files."]
    build_s: Annotated[float, "How long the build took, or takes so far, seconds."]
    num_bytes: Annotated[int, "Of its files, once it is ready."]


class EnvironmentRow(TypedDict):
    """The Python environment that a job asks for, where it has to be built."""

    digest: Annotated[str, "Names what it is made of."]
    source: Annotated[str, "Path of its file."]
    sentence: Annotated[str, "What the build does now, where the job waits for it; else empty."]
    builds: Annotated[list[BuildRow], "On which servers it is, or is being built, newest first."]
    log: Annotated[str, "End of the log of the newest build that is not ready."]
    waiting_jobs: Annotated[
        list[NamedJob], "Jobs that wait for it and that you may see, those submitted first before others."
    ]


def environment_row(job: Job, access: Access) -> EnvironmentRow | None:
    """Return the environment of a job as plain JSON data; None for a job without one that is built."""
    environment = job.environment
    if environment is None:
        return None
    places = (
        ServerEnvironment.objects.filter(environment=environment)
        .select_related("server", "environment")
        .order_by("-pk")
    )
    rows = list(places)
    waiting = access.jobs().filter(environment=environment, state=JobState.QUEUED).order_by("number")
    logs = [row.tail for row in rows if row.tail and row.state != EnvironmentState.READY]
    builds = [_build(row) for row in rows]
    return {
        "digest": environment.pk,
        "source": environment.source,
        "sentence": _sentence(environment.source, builds) if phase_of(job.state, job.wait_reason) == PREPARING else "",
        "builds": builds,
        "log": logs[0] if logs else _last_words(job),
        "waiting_jobs": [
            {"id": pk, "number": number, "name": name, "queue": queue}
            for pk, number, name, queue in waiting.values_list("pk", "number", "name", "queue__name")[:MOST_WAITING]
        ],
    }


def build_under_way(builds: Sequence[BuildRow]) -> BuildRow | None:
    """Return the newest build that is asked for, waits for another one or goes on; None when there is none."""
    return next((one for one in builds if one["state"] not in (EnvironmentState.READY, EnvironmentState.FAILED)), None)


def tried_again_after(row: ServerEnvironment) -> timedelta:
    """Return how long a server is not asked again for a build that failed; its environment is read with it."""
    if not row.is_passing:
        return TRIED_AGAIN_AFTER
    return BACK_OFF[min(max(row.environment.faults, 1), len(BACK_OFF)) - 1]


def _sentence(source: str, builds: Sequence[BuildRow]) -> str:
    """Return the finding: what the build does now."""
    build = build_under_way(builds)
    broken = next((one for one in builds if one["again_at"]), None)
    if build is None and broken is not None:
        return f"The build on {broken['server']} broke and is tried again"
    if build is None:
        return "No server that could take it can build its environment"
    if build["state"] == EnvironmentState.ASKED:
        return f"{build['server']} is asked to build {source}"
    if build["state"] == EnvironmentState.WAITING:
        return build["detail"] or f"It waits for another build on {build['server']}"
    if build["total"] is None:
        return f"Resolving {source}"
    return f"Installing {build['done'] or 0} of {build['total']} {'package' if build['total'] == 1 else 'packages'}"


def _build(row: ServerEnvironment) -> BuildRow:
    return {
        "server_id": row.server_id,
        "server": row.server.name,
        "python": row.server.python,
        "state": row.state,
        "asked_at": iso(row.asked_at),
        "changed_at": iso(row.changed_at),
        "done": row.done,
        "total": row.total,
        "detail": row.detail,
        "again_at": iso(row.changed_at + tried_again_after(row)) if row.is_passing else None,
        "build_s": row.build_s,
        "num_bytes": row.num_bytes,
    }


def _last_words(job: Job) -> str:
    """Return the end of the log of the build that a job failed by, which is kept with its event."""
    if job.end_cause != EndCause.ENVIRONMENT:
        return ""
    data = Event.objects.filter(job=job, reason=EndCause.ENVIRONMENT).order_by("-number").values_list("data", flat=True)
    return str((data.first() or {}).get("log", ""))
