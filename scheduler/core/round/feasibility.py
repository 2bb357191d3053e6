"""Decide which jobs the present servers could hold if they were empty, and number jobs that ask for the same."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from scheduler.core.model.barred import NO_SERVERS
from scheduler.core.model.cpu_memory_bounds import Needs, must_have
from scheduler.core.model.numbering import numbered
from scheduler.core.model.tables import BoolArray, FloatArray, IntArray, JobTable, ServerTable
from scheduler.core.packing.free_gpus import Gang

_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Shapes:
    """Jobs that ask for the same are one shape.

    Attributes:
        shape: (n,) number of the shape of each job.
        first: (shapes,) the first job of each shape.
        kind: (n,) what the locality said about each job; part of its shape.
        largest_gang: (shapes,) most GPUs that a gang of this kind could get on empty servers.
        least_servers: (n,) fewest servers that could hold the gang if they were empty; 0 when none can.
        possible: (n,) whether the job itself could run on empty servers.
    """

    shape: IntArray
    first: IntArray
    kind: list[tuple[float, ...]]
    largest_gang: IntArray
    least_servers: IntArray
    possible: BoolArray


def shapes_of(jobs: JobTable, servers: ServerTable, needs: Needs, kinds: Sequence[FloatArray]) -> Shapes:
    """Return the shapes of all jobs and which of them could ever run; ``kinds`` as in ``Locality.kinds``."""
    kind: list[tuple[float, ...]] = [()] * len(jobs)
    if kinds:
        kind = [*zip(*(column.tolist() for column in kinds), strict=True)]
    columns: list[IntArray | FloatArray] = [jobs.num_gpus, jobs.max_servers]
    if needs.tight:
        columns += [needs.cpus_least, needs.cpus_most, needs.memory_least, needs.memory_most]
    if needs.barred:
        sets = sorted(set(needs.barred.values()), key=sorted)
        place = {closed: at for at, closed in enumerate(sets, start=1)}
        number = np.zeros(len(jobs), dtype=np.int64)
        for row, closed in needs.barred.items():
            number[row] = place[closed]
        columns.append(number)
    shape, first = _number_rows([*columns, *kinds])
    gpus = servers.num_gpus
    largest, least = [], []
    for row in first.tolist():
        barred = needs.barred.get(row, NO_SERVERS)
        usable = np.sort(usable_gpus(row, servers, needs, barred) if needs.tight else gpus)[::-1].cumsum()
        most_servers = int(jobs.max_servers[row]) or len(usable)
        largest.append(int(usable[:most_servers].max(initial=0)))
        least.append(int(np.searchsorted(usable, jobs.num_gpus[row])) + 1 if largest[-1] >= jobs.num_gpus[row] else 0)
    largest_gang, least_servers = np.array(largest, dtype=np.int64), np.array(least, dtype=np.int64)
    possible = largest_gang[shape] >= jobs.num_gpus if len(jobs) else np.zeros(0, dtype=np.bool_)
    return Shapes(
        shape=shape,
        first=first,
        kind=kind,
        largest_gang=largest_gang,
        least_servers=least_servers[shape],
        possible=possible,
    )


def gangs_of(jobs: JobTable, shapes: Shapes) -> list[Gang]:
    """Return what the jobs of each shape look for."""
    return [
        Gang(
            num_gpus=int(jobs.num_gpus[row]),
            max_servers=int(jobs.max_servers[row]),
            least_servers=int(shapes.least_servers[row]),
            kind=shapes.kind[row],
            fits=None,
        )
        for row in shapes.first.tolist()
    ]


def _number_rows(columns: Sequence[IntArray | FloatArray]) -> tuple[IntArray, IntArray]:
    """Return for each row the number of its kind, and for each kind its first row."""
    number = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        if (column == column[:1]).all():
            continue  # the same for all rows
        if column.dtype == np.int64:
            values, place = numbered(cast(IntArray, column))
        else:
            values, place = np.unique(column, return_inverse=True)
        _, number = numbered(number * len(values) + place)
    first = np.zeros(int(number.max(initial=-1)) + 1, dtype=np.int64)
    first[number[::-1]] = np.arange(len(number))[::-1]
    return number, first


def usable_gpus(row: int, servers: ServerTable, needs: Needs, barred: frozenset[int]) -> IntArray:
    """Return (m,) GPUs of each empty server for which it also has the cores and memory that the job must have.

    None of those that are barred.
    """
    cpus = must_have(needs.cpus_least[row], needs.cpus_most[row], needs.cpus_share)
    memory = must_have(needs.memory_least[row], needs.memory_most[row], needs.memory_share)
    most = servers.num_gpus.astype(np.float64)
    for capacity, per_gpu in ((servers.num_cpus, cpus), (servers.memory_bytes, memory)):
        allowed = np.full(len(most), np.inf)
        np.divide(capacity * (1 + _TOLERANCE), per_gpu, out=allowed, where=per_gpu > 0)
        most = np.minimum(most, np.floor(allowed))
    most[list(barred)] = 0.0
    return most.astype(np.int64)
