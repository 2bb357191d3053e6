"""Pairs of jobs on the same GPUs: which jobs fit together, and what a pair needs."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import product

import numpy as np

from scheduler.core.model.barred import NO_SERVERS, barred_rows
from scheduler.core.model.plan import Plan
from scheduler.core.model.tables import NO_ROW, Snapshot
from scheduler.core.model.trial import Trial, TrialKind, Verdict

# Hosts and guests of one size that a round looks at.
_MOST_OF_A_SIZE = 64


def is_in_force(trial: Trial) -> bool:
    """Return whether the trial is a pair that shares GPUs now, or will when it runs again."""
    return trial.kind is TrialKind.PACK and trial.verdict is not Verdict.UNDONE


def is_whole(snapshot: Snapshot, host: int, guest: int) -> bool:
    """Return whether both jobs of a pair are there, and run on the same seats or wait both.

    A pair that insists on cores or memory does not wait together: no other place may have enough for both.
    """
    if NO_ROW in (host, guest):
        return False
    jobs, held = snapshot.jobs, snapshot.held
    insists = jobs.min_cpus[[host, guest]].any() or jobs.min_memory_bytes[[host, guest]].any()
    if insists and not jobs.running[host]:
        return False
    mine, theirs = (
        [*zip(held.server[at], held.num_gpus[at], strict=True)] for at in (held.job == host, held.job == guest)
    )
    return mine == theirs


def bound_together(snapshot: Snapshot, riding: Mapping[int, int], trials: Iterable[Trial]) -> Snapshot:
    """Return the snapshot in which hosts ask for what both need, and are not stopped while their pair is measured.

    A host has no more and no fewer GPUs than its guest can run on.
    """
    if not riding:
        return snapshot
    jobs = snapshot.jobs
    guests, hosts = list(riding), list(riding.values())
    preemptible, max_servers = jobs.preemptible.copy(), jobs.max_servers.copy()
    min_cpus, min_memory = jobs.min_cpus.copy(), jobs.min_memory_bytes.copy()
    min_gpus, max_gpus = jobs.min_gpus.copy(), jobs.max_gpus.copy()
    min_gpus[hosts] = np.maximum(min_gpus[hosts], min_gpus[guests])
    max_gpus[hosts] = np.minimum(max_gpus[hosts], max_gpus[guests])
    measured = {trial.jobs[0] for trial in trials if is_in_force(trial) and trial.verdict is Verdict.TRYING}
    preemptible[hosts] &= ~np.isin(jobs.job_id[hosts], list(measured))
    most = np.where(max_servers == 0, np.iinfo(np.int64).max, max_servers)
    most = np.minimum(most[guests], most[hosts])
    max_servers[hosts] = np.where(most == np.iinfo(np.int64).max, 0, most)
    for least in (min_cpus, min_memory):
        least[hosts] = 2 * np.maximum(least[hosts], least[guests])
    return replace(
        snapshot,
        jobs=replace(
            jobs,
            preemptible=preemptible,
            max_servers=max_servers,
            min_cpus=min_cpus,
            min_memory_bytes=min_memory,
            min_gpus=min_gpus,
            max_gpus=max_gpus,
        ),
    )


def least_busy_first(snapshot: Snapshot, hosts: list[int], guests: list[int]) -> Iterator[tuple[int, int]]:
    """Yield pairs of the same size, those with the least busy GPUs first; of each size not more than a round tries."""
    jobs = snapshot.jobs
    known = [profile.gpu_util_frac for profile in jobs.profiles]

    def rank(row: int) -> tuple[float, int]:
        util = known[jobs.profile[row]] if jobs.profile[row] != NO_ROW else None
        return (1.0 if util is None else util), int(jobs.job_id[row])

    pairs = []
    for gpus in np.unique(jobs.num_gpus[guests]).tolist():
        mine, theirs = (
            sorted((row for row in rows if jobs.num_gpus[row] == gpus), key=rank) for rows in (hosts, guests)
        )
        pairs += list(product(mine[:_MOST_OF_A_SIZE], theirs[:_MOST_OF_A_SIZE]))
    yield from sorted(pairs, key=lambda pair: (rank(pair[0])[0] + rank(pair[1])[0], rank(pair[0]), rank(pair[1])))


def fits(snapshot: Snapshot, plan: Plan, host: int, guest: int, *, num_servers: int) -> bool:
    """Return whether the guest may use the seats, and half of the cores and bytes are enough for both."""
    jobs, mine = snapshot.jobs, plan.grants.job == host
    barred = barred_rows(snapshot).get(guest, NO_SERVERS)
    if not barred.isdisjoint(plan.grants.server[mine].tolist()):
        return False
    gpus = plan.grants.num_gpus[mine].sum()
    if 0 < jobs.max_servers[guest] < num_servers or not jobs.min_gpus[guest] <= gpus <= jobs.max_gpus[guest]:
        return False
    half_cpus, half_memory = plan.grants.cpus[mine].sum() / 2, plan.grants.memory_bytes[mine].sum() / 2
    return bool(
        max(jobs.min_cpus[host], jobs.min_cpus[guest]) <= half_cpus
        and max(jobs.min_memory_bytes[host], jobs.min_memory_bytes[guest]) <= half_memory
    )
