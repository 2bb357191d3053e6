"""Random numbers that are the same on every platform, and arrivals made of them.

Only uniform numbers come from numpy, whose bit stream is fixed; all else is computed from them, and what leaves a
generator is rounded to milliseconds, so that the last digit of a logarithm on another machine changes nothing.
"""

import math
import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from scheduler.core.model.tables import FloatArray, IntArray

KeyArray = NDArray[np.uint64]

HOUR_S = 3600.0
DAY_S = 24 * HOUR_S
WEEK_S = 7 * DAY_S

_WORD = 2**64 - 1

_DAY_SWING = 0.5
_WEEKEND = 0.6
_QUIETEST_S = 3 * HOUR_S


class Draws:
    """Random numbers of one purpose; drawing more of them never changes those of another purpose."""

    def __init__(self, seed: int, purpose: str) -> None:
        number = zlib.crc32(purpose.encode())
        self._bits = np.random.Generator(np.random.PCG64([seed, number]))
        self._salt = ((seed << 32) + number) & _WORD

    def uniform(self, size: int) -> FloatArray:
        """Return (size,) numbers in [0, 1)."""
        return self._bits.random(size)

    def uniform_of(self, keys: KeyArray, turn: int = 0) -> FloatArray:
        """Return a number in [0, 1) for each key: it depends on the key alone, not on what else is drawn.

        Args:
            keys: What the numbers belong to, such as the numbers of jobs.
            turn: Another number for the same key.
        """
        salt = mixed(mixed(np.array([self._salt], dtype=np.uint64)) + np.uint64(turn))
        return np.asarray((mixed(keys + salt) >> np.uint64(11)) * 2.0**-53, dtype=np.float64)

    def exponential(self, size: int) -> FloatArray:
        """Return (size,) numbers of mean 1."""
        return np.negative(np.log1p(-self.uniform(size)))

    def normal(self, size: int) -> FloatArray:
        """Return (size,) numbers of mean 0 and deviation 1. Source: Box and Muller, 1958."""
        return np.asarray(np.sqrt(2 * self.exponential(size)) * np.cos(2 * math.pi * self.uniform(size)))

    def order(self, size: int) -> IntArray:
        """Return 0 to ``size`` - 1 in a random order."""
        return np.argsort(self.uniform(size), kind="stable")

    def choice(self, size: int, shares: Sequence[float]) -> IntArray:
        """Return (size,) positions in ``shares``, each as often as its share of their sum."""
        return np.searchsorted(np.cumsum(shares)[:-1] / math.fsum(shares), self.uniform(size), side="right")


def mixed(words: KeyArray) -> KeyArray:
    """Return words whose bits each depend on all bits of the given ones, and no two alike.

    Source: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014, the mix of SplitMix64.
    """
    words = words + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def zipf(size: int, exponent: float) -> FloatArray:
    """Return (size,) shares that fall with the rank to the power of ``exponent``; their sum is 1."""
    shares: FloatArray = np.arange(1, size + 1, dtype=np.float64) ** -exponent
    return np.asarray(shares / shares.sum())


def whole_shares(total: int, shares: FloatArray) -> list[int]:
    """Return whole numbers in proportion to the shares; they add up to ``total`` (largest remainder)."""
    exact = shares / shares.sum() * total
    whole = np.floor(exact).astype(np.int64)
    whole[np.argsort(whole - exact, kind="stable")[: total - int(whole.sum())]] += 1
    return [int(value) for value in whole]


def arrivals(draws: Draws, size: int, *, mean_gap_s: float, diurnal: bool) -> FloatArray:
    """Return (size,) times of a Poisson process, ascending, seconds.

    Args:
        draws: Where the randomness comes from.
        size: Number of arrivals.
        mean_gap_s: Mean time between two of them over whole weeks.
        diurnal: Whether the rate follows the hours, 1 + 0.5 sin with its low at 3 in the morning, and is 0.6 of it on
            Saturday and Sunday; 0 s is Monday, midnight.
    """
    # Arrivals at rate 1 in a time that runs as fast as the rate, bent back to seconds.
    exposure = np.cumsum(draws.exponential(size)) * mean_gap_s
    if not diurnal:
        return exposure
    edges_s = np.arange(0.0, WEEK_S + 1, 300.0)
    middles_s = (edges_s[1:] + edges_s[:-1]) / 2
    rate = 1 - _DAY_SWING * np.cos(2 * math.pi * (middles_s - _QUIETEST_S) / DAY_S)
    rate[middles_s >= 5 * DAY_S] *= _WEEKEND
    passed = np.concatenate(([0.0], np.cumsum(rate)))
    passed *= WEEK_S / passed[-1]
    weeks, rest = np.divmod(exposure, WEEK_S)
    return np.asarray(weeks * WEEK_S + np.interp(rest, passed, edges_s))


def milliseconds(seconds: FloatArray) -> list[float]:
    """Return the times rounded to milliseconds."""
    return [float(value) for value in np.round(seconds, 3).tolist()]
