"""Reads for a round which jobs need a Python environment, and on which servers it is."""

from collections import defaultdict
from collections.abc import Container

from scheduler.models import Job, ServerEnvironment
from scheduler.models.server import EnvironmentState, ServerState


def prepared_read(job_pks: Container[str]) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """Return of the jobs of a round that need one their number, and the numbers of the servers that have it."""
    jobs = Job.objects.exclude(environment=None).filter(ended_at=None).order_by("number")
    needing = [
        (number, digest) for pk, number, digest in jobs.values_list("pk", "number", "environment") if pk in job_pks
    ]
    if not needing:
        return ()
    ready: dict[str | None, list[int]] = defaultdict(list)
    rows = ServerEnvironment.objects.filter(state=EnvironmentState.READY, server__state=ServerState.UP)
    for digest, server in rows.order_by("server__number").values_list("environment", "server__number"):
        ready[digest].append(server)
    return tuple((number, tuple(ready[digest])) for number, digest in needing)
