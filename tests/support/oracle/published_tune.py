"""Tune as published, for gangs on one server that all start at once: place with the demand, demote it, demote peers.

Source: Mohan et al., "Synergy", OSDI 2022, section 4. Written from the paper's steps alone. As the core documents, a
demoted job keeps what it can use of its proportional share, not more, and where nothing is known it wants its share.
"""

import math
from dataclasses import dataclass

from tests.support.oracle.cases import Case

TOLERANCE = 1e-9


class StuckError(Exception):
    """No server has enough free GPUs: which job to seat first decides, and the paper assumes that it never happens."""


@dataclass(slots=True)
class Placed:
    """A job on its server, with cores and bytes in all."""

    job: int
    server: int
    gpus: int
    cpus: float
    memory: float
    share_cpus: float
    share_memory: float


def published_tune(case: Case, jobs: list[int]) -> list[Placed]:
    """Return where the jobs go and what they get."""
    placed: list[Placed] = []
    for job in sorted(jobs, key=lambda job: _greed(case, job)):
        _place(case, placed, job)
    return placed


def _greed(case: Case, job: int) -> tuple[float, ...]:
    """Return what sorts jobs: GPUs, then cores, then memory, most first; then as they came."""
    row = case.jobs[job]
    top_cpus = max(server.num_cpus / server.num_gpus for server in case.servers) * row.num_gpus
    top_memory = max(server.memory_bytes / server.num_gpus for server in case.servers) * row.num_gpus
    cpus = top_cpus if math.isinf(row.demand_cpus) else row.demand_cpus
    memory = top_memory if math.isinf(row.demand_memory_bytes) else row.demand_memory_bytes
    return -row.num_gpus, -cpus, -memory, job


def _place(case: Case, placed: list[Placed], job: int) -> None:
    gpus = case.jobs[job].num_gpus
    by_fit = []
    for server, row in enumerate(case.servers):
        free = row.num_gpus - sum(one.gpus for one in placed if one.server == server)
        if free >= gpus:
            by_fit.append((free, server))
    if not by_fit:
        raise StuckError(job)
    by_fit.sort()
    for demoted in (False, True):
        for _, server in by_fit:
            asked = _asked(case, job, server, demoted=demoted)
            if _is_room(case, placed, asked):
                placed.append(asked)
                return
    asked = _asked(case, job, by_fit[0][1], demoted=True)
    peers = [one for one in placed if one.server == asked.server]
    for peer in sorted(peers, key=lambda one: (-one.cpus / one.gpus, -one.memory / one.gpus)):
        if _is_room(case, placed, asked):
            break
        peer.cpus, peer.memory = min(peer.cpus, peer.share_cpus), min(peer.memory, peer.share_memory)
    assert _is_room(case, placed, asked), "the paper's guarantee"
    placed.append(asked)


def _asked(case: Case, job: int, server: int, *, demoted: bool) -> Placed:
    row, at = case.jobs[job], case.servers[server]
    part = row.num_gpus / at.num_gpus
    share = min(row.demand_cpus, part * at.num_cpus), min(row.demand_memory_bytes, part * at.memory_bytes)
    cpus, memory = share
    if not demoted:
        # No server gives more than it has, so a larger demand asks for all of it.
        cpus = cpus if math.isinf(row.demand_cpus) else min(row.demand_cpus, at.num_cpus)
        memory = memory if math.isinf(row.demand_memory_bytes) else min(row.demand_memory_bytes, at.memory_bytes)
    return Placed(job, server, row.num_gpus, cpus, memory, *share)


def _is_room(case: Case, placed: list[Placed], asked: Placed) -> bool:
    at = case.servers[asked.server]
    here = [one for one in placed if one.server == asked.server]
    cpus, memory = sum(one.cpus for one in here), sum(one.memory for one in here)
    return cpus + asked.cpus <= at.num_cpus * (1 + TOLERANCE) and memory + asked.memory <= at.memory_bytes * (
        1 + TOLERANCE
    )
