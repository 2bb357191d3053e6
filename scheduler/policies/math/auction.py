"""The partial-allocation auction: proportionally fair shares, of which every winner keeps only a part (Themis)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.core.model.tables import FloatArray, IntArray

# Log of the value of getting nothing: small, so that the product of all values can be compared at all.
NOTHING = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Bid:
    """The value of more GPUs to one bidder.

    Attributes:
        num_gpus: GPUs, ascending, the first 0.
        value: Value of each, > 0; ``NOTHING`` for one that is worth nothing.
    """

    num_gpus: tuple[int, ...]
    value: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Award:
    """The outcome, by bidder.

    Attributes:
        fair_gpus: (b,) GPUs that make the product of the values largest.
        kept_part: (b,) part of them that each may keep: by how much it lowers the product of the others' values.
        num_gpus: (b,) GPUs that each gets.
        value: Product of the values at ``fair_gpus``, as a logarithm.
    """

    fair_gpus: IntArray
    kept_part: FloatArray
    num_gpus: IntArray
    value: float


def award(bids: Sequence[Bid], num_gpus: int) -> Award:
    """Return how many of ``num_gpus`` each bidder gets.

    Exact for any number of bidders: the best product with 0 .. ``num_gpus`` GPUs is built up bidder by bidder from both
    ends, and what the others would do without a bidder is a meeting of the two. Of equal products the one that gives
    less to later bidders is taken.

    Source: Mahajan et al., "Themis", NSDI 2020, section 3.2, after Cole, Gkatzelis and Goel. Differs: kept GPUs are
    rounded down to a whole number.
    """
    from_left = _best(bids, num_gpus)
    from_right = _best(bids[::-1], num_gpus)[::-1]
    fair, left = [0] * len(bids), num_gpus
    for bidder in range(len(bids) - 1, -1, -1):
        bid, before = bids[bidder], from_left[bidder]
        total = [np.log(v) + before[left - k] for k, v in zip(bid.num_gpus, bid.value, strict=True) if k <= left]
        fair[bidder] = bid.num_gpus[int(np.argmax(total))]
        left -= fair[bidder]
    values = [float(np.log(bid.value[bid.num_gpus.index(gpus)])) for bid, gpus in zip(bids, fair, strict=True)]
    kept = np.ones(len(bids))
    for bidder in range(len(bids)):
        without = float((from_left[bidder] + from_right[bidder + 1][::-1]).max())
        kept[bidder] = min(1.0, np.exp(sum(values) - values[bidder] - without))
    given = np.floor(kept * fair + 1e-9).astype(np.int64)
    return Award(fair_gpus=np.array(fair, dtype=np.int64), kept_part=kept, num_gpus=given, value=sum(values))


def _best(bids: Sequence[Bid], num_gpus: int) -> list[FloatArray]:
    """Return for the first 0, 1, 2 ... bidders (num_gpus + 1,) the log of their best product with at most so many."""
    best = [np.zeros(num_gpus + 1)]
    for bid in bids:
        more = np.full(num_gpus + 1, -np.inf)
        for gpus, value in zip(bid.num_gpus, bid.value, strict=True):
            if gpus <= num_gpus:
                reached = best[-1][: num_gpus + 1 - gpus] + np.log(value)
                np.maximum(more[gpus:], reached, out=more[gpus:])
        best.append(more)
    return best


def levels(least: int, most: int) -> tuple[int, ...]:
    """Return the numbers of GPUs of a bid: 0, then the powers of two from ``least`` on, then ``most``."""
    steps = [0]
    step = least
    while 0 < step < most:
        steps.append(step)
        step = 1 << step.bit_length()
    return (*steps, most) if most > 0 else tuple(steps)
