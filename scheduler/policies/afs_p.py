"""Elastic shares for a low average completion time, lengths unknown (AFS-P)."""

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from scheduler.core.model.tables import BoolArray, FloatArray, IntArray, JobTable, Snapshot
from scheduler.core.performance.curves import curves_of
from scheduler.policies.math.knock_out import KnockOutRule, knock_out
from scheduler.policies.math.least import least_shares
from scheduler.policies.math.undisturbed import undisturbed_shares

_RULE = KnockOutRule(shrinking=False, ties_to_later=True)
# Times of rounds are sums of floats.
_DUST_S = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class AfsP:
    """Time slices in turn, and each spare GPU to the job that gains most by it whichever of two is the shorter.

    Shares are decided when a job arrives or ends and at the end of a slice; in between they stay.

    Source: Hwang et al., "Elastic Resource Sharing for Distributed Deep Learning" (AFS), NSDI 2021, AFS-P. Differs:
    where the answer depends on which job is the shorter, the one with the least attained service, or with ``guess`` a
    seeded draw, counts as shorter; the slices of a job are counted from its run time.
    """

    name: ClassVar[str] = "afs-p"
    preemptive: ClassVar[bool] = False

    slice_s: float = field(
        default=7_200.0,
        metadata={"help": "A job keeps its share at least so long when GPUs are short.", "minimum": 1.0},
    )
    guess: bool = field(
        default=False,
        metadata={"help": "Draw which of two jobs counts as the shorter; off: the one with less attained service."},
    )
    seed: int = field(default=0, metadata={"help": "Seed of that draw.", "minimum": 0})

    def shares(self, snapshot: Snapshot, num_gpus: int) -> IntArray:
        """Return (n,) GPUs of each job."""
        jobs = snapshot.jobs
        curves = curves_of(jobs)
        before = undisturbed_shares(snapshot, curves, num_gpus)
        at_end = self._at_end(jobs, snapshot.round_s)
        if before is not None and not (at_end & jobs.running).any():
            return before
        kept = np.zeros(len(jobs), dtype=np.int64)
        if len(jobs) >= num_gpus:
            held = np.bincount(snapshot.held.job, weights=snapshot.held.num_gpus, minlength=len(jobs))
            inside = (held >= jobs.min_gpus) & (held <= jobs.max_gpus)
            kept = np.where(jobs.running & inside & ~at_end, held, 0).astype(np.int64)
            if int(kept.sum()) > num_gpus:  # servers were lost
                kept[:] = 0
        turn = np.lexsort((jobs.job_id, jobs.arrival_s, jobs.first_start_s, self.slices(jobs)))
        turn = turn[kept[turn] == 0]
        left = num_gpus - int(kept.sum())
        least = least_shares(np.where(kept > 0, 0, jobs.min_gpus), turn, left)
        pool = np.lexsort((jobs.job_id, jobs.arrival_s))
        shares = knock_out(
            curves,
            _RULE,
            lengths=self._lengths(jobs),
            pool=pool[least[pool] > 0],
            gpus=least,
            most=jobs.max_gpus,
            spare=left - int(least.sum()),
        )
        return kept + shares

    def slices(self, jobs: JobTable) -> IntArray:
        """Return (n,) whole slices that each job has used."""
        return np.floor(jobs.executed_s / self.slice_s + 1e-9).astype(np.int64)

    def _at_end(self, jobs: JobTable, round_s: float) -> BoolArray:
        since_s = jobs.executed_s - self.slices(jobs) * self.slice_s
        # Rounds within ``round_s`` after the end of a slice take it as ended; later ones see the next slice.
        ended: BoolArray = (self.slices(jobs) > 0) & (since_s < min(round_s, self.slice_s / 2) - _DUST_S)
        return ended

    def _lengths(self, jobs: JobTable) -> FloatArray:
        if not self.guess:
            return jobs.attained_gpu_s
        # A number for each job that stays the same from round to round: splitmix64 of seed and id.
        mixed = jobs.job_id.astype(np.uint64) + np.uint64(self.seed * 0x9E3779B97F4A7C15 % 2**64)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
            mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
        return mixed.astype(np.float64)

    def priority(self, snapshot: Snapshot) -> FloatArray:
        """Return (n,) keys: the widest share first, because it needs the most room on one server."""
        return -snapshot.jobs.num_gpus.astype(np.float64)

    def next_change_s(self, jobs: JobTable) -> FloatArray:
        """Return (n,) seconds until the slice of a running job ends."""
        left_s = (self.slices(jobs) + 1) * self.slice_s - jobs.executed_s
        return np.where(jobs.running, left_s, math.inf)
