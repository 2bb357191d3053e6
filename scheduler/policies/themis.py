"""Finish-time fairness by leases that are auctioned off (Themis)."""

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from scheduler.core.model.tables import NO_ROW, FloatArray, IntArray, Snapshot
from scheduler.core.performance.curves import SpeedTable, speed_table
from scheduler.policies.math.auction import NOTHING, Bid, award, levels
from scheduler.policies.math.leases import in_lease


@dataclass(frozen=True, slots=True, kw_only=True)
class Themis:
    """GPUs are leased; when leases end, the jobs that are worst off by finish-time fairness bid for them.

    Source: Mahajan et al., "Themis", NSDI 2020. Differs: every job is an app of its own; the auction is exact at any
    size; GPUs left over go round by round to the worst-off job that can use one, jobs outside the offer first, instead
    of at random; a job of unknown length is taken to have as much ahead of it as it has run, an hour at least.
    """

    name: ClassVar[str] = "themis"
    preemptive: ClassVar[bool] = False

    fairness: float = field(
        default=0.8,
        metadata={
            "help": "GPUs are offered to the worst-off part of the jobs, one minus this; near 1 fair, at 0 efficient.",
            "minimum": 0.0,
            "maximum": 1.0,
        },
    )
    lease_s: float = field(
        default=1_200.0, metadata={"help": "How long a job holds GPUs before it must win again.", "minimum": 1}
    )
    auction: bool = field(
        default=True,
        metadata={"help": "Off: no auction, everything to the worst-off job, then to the next (the strawman)."},
    )

    def shares(self, snapshot: Snapshot, num_gpus: int) -> IntArray:
        """Return (n,) GPUs of each job."""
        jobs = snapshot.jobs
        market = Market.of(snapshot, num_gpus)
        held = np.bincount(snapshot.held.job, weights=snapshot.held.num_gpus, minlength=len(jobs))
        inside = jobs.running & (held >= jobs.min_gpus) & (held <= jobs.max_gpus)
        shares = np.where(inside & in_lease(snapshot, self.lease_s), held, 0).astype(np.int64)
        if int(shares.sum()) > num_gpus:  # servers were lost
            shares[:] = 0
        worst_first = np.lexsort((jobs.job_id, jobs.arrival_s, -market.rho(np.maximum(shares, jobs.min_gpus))))
        can_use = worst_first[(market.peak > shares)[worst_first]]
        left = num_gpus - int(shares.sum())
        if self.auction:
            offered = can_use[: offered_jobs(self.fairness, len(jobs))]
            bids = [market.bid(row, int(shares[row]), left) for row in offered.tolist()]
            shares[offered] += _whole_gangs(award(bids, left).num_gpus, shares[offered], jobs.min_gpus[offered])
            others = np.setdiff1d(can_use, offered, assume_unique=True)
            can_use = np.concatenate((can_use[np.isin(can_use, others)], offered))
            return _deal_out(shares, can_use, market.peak, jobs.min_gpus, num_gpus)
        for row in can_use.tolist():
            more = min(int(market.peak[row]) - int(shares[row]), num_gpus - int(shares.sum()))
            shares[row] += more if shares[row] + more >= jobs.min_gpus[row] else 0
        return shares

    def priority(self, snapshot: Snapshot) -> FloatArray:
        """Return (n,) keys: the widest share first, because it needs the most room on one server."""
        return -snapshot.jobs.num_gpus.astype(np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Market:
    """Speeds and fairness of the jobs, from which bids are made.

    Attributes:
        age_s: (n,) time since submission, seconds.
        work_s: (n,) remaining time on one GPU, seconds.
        ideal_s: (n,) time on an own equal share, perfectly placed, seconds.
        row: (n,) row of each job in ``table``.
        table: Speeds, with the slow-down of gangs that need several servers.
        least: (n,) least GPUs.
        peak: (n,) most GPUs that make a job faster.
    """

    age_s: FloatArray
    work_s: FloatArray
    ideal_s: FloatArray
    row: IntArray
    table: SpeedTable
    least: IntArray
    peak: IntArray

    @staticmethod
    def of(snapshot: Snapshot, num_gpus: int) -> "Market":
        """Return the market of a snapshot."""
        jobs = snapshot.jobs
        widest = int(max(jobs.max_gpus.max(initial=1), jobs.num_gpus.max(initial=1)))
        per_server = int(snapshot.servers.num_gpus.max(initial=1))
        table = speed_table(jobs.profiles, widest, server_gpus=per_server)
        ideal = speed_table(jobs.profiles, widest).speed
        row = np.where(jobs.profile == NO_ROW, len(jobs.profiles), jobs.profile)
        at_reference = ideal[row, jobs.num_gpus]
        expected_s = np.maximum(jobs.executed_s, 3_600.0)
        remaining_s = np.where(np.isfinite(jobs.remaining_s), jobs.remaining_s, expected_s)
        total_s = np.where(np.isfinite(jobs.total_s), jobs.total_s, jobs.executed_s + remaining_s)
        own = np.minimum(np.maximum(1.0, num_gpus / np.maximum(1.0, jobs.sharers)), jobs.max_gpus)
        below = np.floor(own).astype(np.int64)
        part = own - below
        own_speed = ideal[row, below] * (1 - part) + ideal[row, np.minimum(below + 1, ideal.shape[1] - 1)] * part
        peak = np.maximum(jobs.min_gpus, np.minimum(jobs.max_gpus, table.stop[row, jobs.min_gpus]))
        return Market(
            age_s=np.maximum(0.0, snapshot.now_s - jobs.arrival_s),
            work_s=remaining_s * at_reference,
            ideal_s=total_s * at_reference / own_speed,
            row=row,
            table=table,
            least=jobs.min_gpus,
            peak=peak,
        )

    def rho(self, num_gpus: IntArray) -> FloatArray:
        """Return (n,) finish-time fairness with so many GPUs each, at least one."""
        shared_s = self.age_s + self.work_s / self.table.speed[self.row, num_gpus]
        rho: FloatArray = shared_s / np.maximum(self.ideal_s, 1e-9)
        return rho

    def bid(self, row: int, holds: int, left: int) -> Bid:
        """Return the bid of a job for GPUs beside those that it holds."""
        first = max(0, int(self.least[row]) - holds)
        counts = levels(first or 1, min(int(self.peak[row]) - holds, left))
        counts = tuple(count for count in counts if count == 0 or count >= first)
        speeds = self.table.speed[self.row[row], [holds + count for count in counts]].tolist()
        age_s, work_s, ideal_s = float(self.age_s[row]), float(self.work_s[row]), float(self.ideal_s[row])
        values = [max(NOTHING, ideal_s / (age_s + work_s / speed)) if speed else NOTHING for speed in speeds]
        return Bid(num_gpus=counts, value=tuple(values))


def offered_jobs(fairness: float, num_jobs: int) -> int:
    """Return how many of the jobs are offered GPUs, the worst-off ones."""
    return max(1, math.ceil((1 - fairness) * num_jobs - 1e-9))


def _whole_gangs(won: IntArray, held: IntArray, least: IntArray) -> IntArray:
    """Return what jobs can use of what they won: nothing where it is less than they can run on."""
    return np.where(held + won >= least, won, 0)


def _deal_out(shares: IntArray, turn: IntArray, most: IntArray, least: IntArray, num_gpus: int) -> IntArray:
    """Return the shares with all GPUs given out that any job can use, one each in turn; first the least of a job."""
    shares = shares.copy()
    left = num_gpus - int(shares.sum())
    while left > 0:
        given = 0
        for row in turn[(shares < most)[turn]].tolist():
            step = 1 if shares[row] else int(least[row])
            if step <= left:
                shares[row] += step
                left -= step
                given += step
        if not given:
            break
    return shares
