"""Leases: a job keeps its GPUs until its lease ends, and must then win them again."""

import math

import numpy as np

from scheduler.core.model.tables import BoolArray, Snapshot

# Times of rounds are sums of floats.
_DUST_S = 1e-6


def in_lease(snapshot: Snapshot, lease_s: float) -> BoolArray:
    """Return (n,) running jobs whose lease does not end in this round.

    A lease begins when a job takes its seats, and again whenever one ends and the job keeps them. All rounds within
    ``round_s`` after the end of a lease (at most half a lease) take it as ended; later ones see the next lease.

    Args:
        snapshot: The cluster.
        lease_s: Length of a lease, seconds, > 0.

    Source: Mahajan et al., "Themis", NSDI 2020.
    """
    jobs = snapshot.jobs
    if not jobs.running.any():
        return jobs.running
    since_s = np.where(jobs.running, snapshot.now_s - jobs.held_at_s, 0.0) + _DUST_S
    leases = np.floor(since_s / lease_s)  # that have ended
    goes_on = (leases == 0) | (since_s - leases * lease_s >= min(snapshot.round_s, lease_s / 2))
    held: BoolArray = jobs.running & goes_on
    return held


def ends(held_s: float, lease_s: float, round_s: float) -> bool:
    """Return whether a lease of one job that has run for ``held_s`` ends in this round: not ``in_lease``."""
    since_s = held_s + _DUST_S
    leases = math.floor(since_s / lease_s)
    return leases > 0 and since_s - leases * lease_s < min(round_s, lease_s / 2)
