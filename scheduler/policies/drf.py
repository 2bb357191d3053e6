"""Dominant resource fairness, by job or by user."""

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from scheduler.core.model.tables import FloatArray, JobTable, Snapshot
from scheduler.core.performance.resources import (
    Filling,
    capacities,
    demands,
    dominant_share,
    service_order,
    shares_before,
)

# Credits fade all the time: a shell without fixed rounds looks again after a second.
_LOOK_AGAIN_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Drf:
    """Smallest share of the scarcest resource first, GPUs, cores and memory counted.

    ``by`` job is the baseline of Mohan et al., "Synergy", OSDI 2022: the share that the whole job asks for, whatever
    its user holds; it preempts like the other orders there. ``by`` user is Ghodsi et al., "DRF", NSDI 2011: the user
    with the smallest dominant share for its weight is served next with its oldest job, and no job is stopped.

    With ``credit_s`` every round begins from nothing but what users have had lately, and may stop jobs: without credit
    such rounds would only take turns among small jobs. Differs: the weight of a user is that of its jobs; a job that
    finds no room counts for those behind it; credit is that of jobs still there, each taken to have run in one piece.
    """

    name: ClassVar[str] = "drf"

    by: Literal["job", "user"] = field(
        default="user",
        metadata={"help": "Whose share counts: what the job alone asks for, or what its user holds."},
    )
    credit_s: float = field(
        default=0.0,
        metadata={
            "help": "By user: time over which past use counts against a user; with it users below their share "
            "may stop jobs of others. 0 for what they hold now only.",
            "minimum": 0,
        },
    )

    @property
    def preemptive(self) -> bool:
        """Return whether jobs may be stopped: all but plain accounting by user does."""
        return self.by == "job" or self.credit_s > 0

    @property
    def steady(self) -> bool:
        """Return whether a key depends on its job alone: by job."""
        return self.by == "job"

    def priority(self, snapshot: Snapshot) -> FloatArray:
        """Return (n,) dominant shares, of the job or of its user just before it gets the job."""
        jobs, users = snapshot.jobs, _users(snapshot)
        if self.by == "job":
            return np.round(dominant_share(demands(jobs, snapshot.servers), users.capacity), 12)
        begin = self._credit(jobs, users.asked) if self.credit_s > 0 else None
        return shares_before(
            users.asked, group=users.group, rank=service_order(jobs), capacity=users.capacity, begin=begin
        )

    def filling(self, snapshot: Snapshot) -> Filling | None:
        """Return the users as groups; None by job, or with credit."""
        return _users(snapshot) if self.by == "user" and self.credit_s == 0 else None

    def next_change_s(self, jobs: JobTable) -> FloatArray:
        """Return (n,) one second while credits count and a job waits; +inf otherwise."""
        drifts = self.by == "user" and self.credit_s > 0 and not jobs.running.all()
        return np.full(len(jobs), _LOOK_AGAIN_S if drifts else np.inf)

    def _credit(self, jobs: JobTable, weighted: FloatArray) -> FloatArray:
        """Return (n, r) what the user of each job has had on average, past use fading with ``credit_s``."""
        used = -np.expm1(-jobs.executed_s / self.credit_s) * np.exp(-jobs.waited_s / self.credit_s)
        _, user = np.unique(jobs.owner, return_inverse=True)
        amounts = [np.bincount(user, weights=used * weighted[:, column]) for column in range(weighted.shape[1])]
        return np.column_stack(amounts)[user].astype(np.float64)


def _users(snapshot: Snapshot) -> Filling:
    jobs = snapshot.jobs
    asked = demands(jobs, snapshot.servers) / jobs.weight[:, np.newaxis]
    return Filling(group=jobs.owner, asked=asked, capacity=capacities(snapshot.servers).sum(axis=0))
