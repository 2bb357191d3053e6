"""Packing and short work together (Tetris)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import ClassVar, Literal

import numpy as np

from scheduler.core.model.tables import BoolArray, FloatArray, Snapshot
from scheduler.core.performance.resources import (
    alignment,
    capacities,
    demands,
    free_capacities,
    service_order,
    shares_before,
    with_short_first,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tetris:
    """Least remaining work over all resources first, or best fit to what is free now with short work weighed in.

    ``score`` work is the baseline of Mohan et al., "Synergy", OSDI 2022: remaining time times the sum of the demands
    relative to the cluster. ``score`` alignment is Grandl et al., "Tetris", SIGCOMM 2014: the dot product of demand and
    what is free on the server that suits the job best, plus epsilon times how much less work it has than the longest
    one; it stops no job. Differs: an order cannot look again after each job that is placed, so all are scored by what
    is free at the start of the round.
    """

    name: ClassVar[str] = "tetris"

    score: Literal["work", "alignment"] = field(
        default="work",
        metadata={"help": "Order by remaining work alone, or by fit to the free servers with short work weighed in."},
    )
    epsilon: float = field(
        default=math.inf,
        metadata={
            "help": "With alignment: weight of short work beside fit; empty so that both weigh the same on average.",
            "minimum": 0,
        },
    )
    fairness: float = field(
        default=0.0,
        metadata={
            "help": "Only this part of the jobs furthest below the fair share of their users is left out of a choice: "
            "0 ignores fairness, near 1 serves in the order of dominant resource fairness. Published: 0.25.",
            "minimum": 0,
            "maximum": 1,
        },
    )

    @property
    def preemptive(self) -> bool:
        """Return whether jobs may be stopped: only the order by work does."""
        return self.score == "work"

    @property
    def steady(self) -> bool:
        """Return whether a key depends on its job alone: by work, without fairness."""
        return self.score == "work" and self.fairness == 0

    def priority(self, snapshot: Snapshot) -> FloatArray:
        """Return (n,) remaining work, seconds times shares of the cluster; or scores, negative; or places by both."""
        jobs, keys = snapshot.jobs, remaining_work(snapshot)
        waits = np.full(len(jobs), True) if self.preemptive else ~jobs.running
        if self.score == "alignment":
            keys = self._scores(snapshot, keys, waits)
        if self.fairness == 0:
            return keys
        weighted = demands(jobs, snapshot.servers) / jobs.weight[:, np.newaxis]
        capacity = capacities(snapshot.servers).sum(axis=0)
        fair = shares_before(weighted, group=jobs.owner, rank=service_order(jobs), capacity=capacity)
        order = np.lexsort((jobs.job_id, jobs.arrival_s, jobs.first_start_s, fair))
        places = np.full(len(jobs), -1.0)
        taken = among_the_fair(keys.tolist(), order[waits[order]].tolist(), fairness=self.fairness)
        places[taken] = np.arange(len(taken))
        return places

    def _scores(self, snapshot: Snapshot, work_s: FloatArray, waits: BoolArray) -> FloatArray:
        """Return (n,) negative scores of waiting jobs; those that fit nowhere now come last."""
        servers, gpus = snapshot.servers, snapshot.jobs.num_gpus
        # A gang wider than a server goes in equal pieces on several of them, which all score the same.
        pieces = np.ceil(gpus / max(1, int(servers.num_gpus.max(initial=0))))
        asked, kind = np.unique(demands(snapshot.jobs, servers) / pieces[:, np.newaxis], axis=0, return_inverse=True)
        align = alignment(asked, free_capacities(snapshot), capacities(servers))
        best = np.where(np.isnan(align), -1.0, align).max(axis=1, initial=-1.0)[kind.reshape(-1)]
        fits = waits & (best >= 0)
        keys = np.where(waits, np.inf, -np.inf)
        keys[fits] = -with_short_first(best[fits], work_s[fits], weight=self.epsilon)
        return keys


def remaining_work(snapshot: Snapshot) -> FloatArray:
    """Return (n,) remaining time times the sum of the demands relative to the cluster; +inf when unknown."""
    capacity, jobs = capacities(snapshot.servers).sum(axis=0), snapshot.jobs
    asked = demands(jobs, snapshot.servers)
    relative = np.divide(asked, capacity, out=np.zeros(asked.shape), where=capacity > 0).sum(axis=1)
    known = np.isfinite(jobs.remaining_s)
    # Rounded, so that work that is equal on paper ties.
    return np.where(known, np.round(np.where(known, jobs.remaining_s, 0.0) * relative, 6), np.inf)


def among_the_fair(keys: Sequence[float], fair_order: Sequence[int], *, fairness: float) -> list[int]:
    """Return the rows in the order in which they are taken: always the best among those furthest below fair share.

    Args:
        keys: Key of each row, smallest best.
        fair_order: Rows, furthest below their fair share first.
        fairness: Part of the rows that is not looked at, 0 to 1; one is always looked at.
    """
    window = max(1, math.ceil((1 - fairness) * len(fair_order) - 1e-9))
    heap: list[tuple[float, int]] = []
    taken = []
    for place, row in enumerate(fair_order):
        heappush(heap, (keys[row], place))
        if len(heap) == window:
            taken.append(fair_order[heappop(heap)[1]])
    while heap:
        taken.append(fair_order[heappop(heap)[1]])
    return taken
