"""What the servers of this cluster could hold at most, beside what a spec may ask for."""

import itertools
import math
from collections.abc import Iterable
from dataclasses import replace

from django.db import connection
from django.db.models import Count, Q

from scheduler.core.model.errors import FieldError
from scheduler.core.spec.reading import shown
from scheduler.core.spec.spec import JobSpec, Resources
from scheduler.core.spec.units import counted, format_size
from scheduler.models import Gpu, Server

_OF_GPUS = frozenset(f"/resources/{name}" for name in ("gpus", "min_gpus", "max_gpus"))
_OF_SERVERS = "/resources/max_servers"


def with_cluster_size(errors: Iterable[FieldError]) -> list[FieldError]:
    """Return errors of a spec; those about numbers of GPUs and servers also tell how many there are."""
    told, found = list(errors), None
    for place, error in enumerate(told):
        if error.code not in ("range", "type") or error.pointer not in {*_OF_GPUS, _OF_SERVERS}:
            continue
        found = _size() if found is None else found
        count, one = (found[1], "server") if error.pointer == _OF_SERVERS else (found[0], "GPU")
        if count:
            told[place] = replace(error, detail=f"{error.detail} This cluster has {counted(count, one)}.")
    return told


def _size() -> tuple[int, int]:
    """Return the GPUs and the servers that have reported."""
    servers = Server.objects.filter(last_report_at__isnull=False)
    found = servers.aggregate(gpus=Count("gpus", filter=Q(gpus__healthy=True)), servers=Count("pk", distinct=True))
    return found["gpus"], found["servers"]


def capacity_errors(spec: JobSpec) -> list[FieldError]:
    """Return errors for requests that no servers could meet, with the most that they could."""
    if _one_server_fits(spec.resources):
        return []
    servers = list(
        Server.objects.filter(last_report_at__isnull=False)
        .annotate(num_gpus=Count("gpus", filter=Q(gpus__healthy=True)))
        .filter(num_gpus__gt=0)
        .values_list("num_gpus", "num_cpus", "memory_bytes")
    )
    asked = spec.resources
    if not servers:
        return []  # nothing is known yet; the job waits with a reason
    most_gpus = sum(sorted((gpus for gpus, _, _ in servers), reverse=True)[: asked.max_servers])
    field, least_gpus = ("gpus", asked.gpus) if asked.min_gpus is None else ("min_gpus", asked.min_gpus)
    if least_gpus > most_gpus:
        name = "GPUs" if field == "gpus" else field
        more = _more_servers(asked, [gpus for gpus, _, _ in servers], least_gpus)
        on = "one server" if asked.max_servers == 1 else f"{asked.max_servers} servers"
        detail = f"{name} must be between 1 and {most_gpus} on {on}. You asked for {least_gpus}.{more}"
        return [FieldError(pointer=f"/resources/{field}", code="capacity", detail=detail)]
    if asked.max_servers > 1:
        holder = f"no {asked.max_servers} servers have more"
        most_cpus = sum(sorted((cpus for _, cpus, _ in servers), reverse=True)[: asked.max_servers])
        most_memory = sum(sorted((memory for _, _, memory in servers), reverse=True)[: asked.max_servers])
    else:
        holder = f"no server with {least_gpus} {'GPU' if least_gpus == 1 else 'GPUs'} has more"
        fitting = [(cpus, memory_bytes) for gpus, cpus, memory_bytes in servers if gpus >= least_gpus]
        most_cpus, most_memory = max(cpus for cpus, _ in fitting), max(memory_bytes for _, memory_bytes in fitting)
    errors = []
    if asked.cpus is not None and asked.cpus > most_cpus:
        detail = f"cpus must be at most {most_cpus}: {holder}. You asked for {shown(float(asked.cpus))}."
        errors.append(FieldError(pointer="/resources/cpus", code="capacity", detail=detail))
    if asked.memory_bytes is not None and asked.memory_bytes > most_memory:
        most = f"{math.floor(most_memory / 2**30 * 10) / 10:g}GiB"
        detail = f"memory must be at most {most}: {holder}. You asked for {format_size(asked.memory_bytes)}."
        errors.append(FieldError(pointer="/resources/memory", code="capacity", detail=detail))
    return errors


def _one_server_fits(asked: Resources) -> bool:
    """Return whether a single server could hold all of it; looks at no more servers than it takes to find one.

    As text, because each submit asks it and Django takes longer to put it together than a database to answer it.
    """
    statement = f"""
        SELECT 1 FROM {Server._meta.db_table} AS server
        WHERE last_report_at IS NOT NULL AND num_cpus >= %s AND memory_bytes >= %s AND %s <= (
            SELECT count(*) FROM {Gpu._meta.db_table} AS gpu WHERE gpu.server_id = server.id AND gpu.healthy
        ) LIMIT 1
    """  # noqa: S608  (our names)
    with connection.cursor() as cursor:
        cursor.execute(statement, [asked.cpus or 0, asked.memory_bytes or 0, asked.gpus])
        return cursor.fetchone() is not None


def _more_servers(asked: Resources, gpus: list[int], least_gpus: int) -> str:
    """Return the sentence with the number of servers that would be enough, or that have most, if more would help."""
    widest = list(itertools.accumulate(sorted(gpus, reverse=True)))
    if widest[-1] < least_gpus:
        if len(gpus) <= asked.max_servers:
            return ""
        return f" With max_servers of {len(gpus)} instead of {asked.max_servers} it can be up to {widest[-1]}."
    needed = next(number for number, total in enumerate(widest, start=1) if total >= least_gpus)
    return f" With max_servers of {needed} instead of {asked.max_servers} it fits."
