"""Throughput by number of GPUs as a table: one row a profile, one column a count of GPUs."""

import math
from dataclasses import dataclass

import numpy as np

from scheduler.core.model.profile import Profile, locality, scaling
from scheduler.core.model.tables import NO_ROW, FloatArray, IntArray, JobTable


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedTable:
    """Speeds of several curves, and what one more GPU does to them; ``p`` is the speed now, ``p'`` the one with it.

    Attributes:
        speed: (c, K + 2) speed with 0 .. K + 1 GPUs.
        gain: (c, K + 1) ``(p' - p) / p'`` beside 0 .. K GPUs.
        rise: (c, K + 1) ``(p' - p) / p``; infinite beside none.
        stop: (c, K + 1) the count, that or more, at which one more GPU first makes no difference.
    """

    speed: FloatArray
    gain: FloatArray
    rise: FloatArray
    stop: IntArray

    @staticmethod
    def of(speed: FloatArray) -> "SpeedTable":
        """Return the table of these speeds, which never fall."""
        more = speed[:, 1:] - speed[:, :-1]
        with np.errstate(divide="ignore", invalid="ignore"):
            # Rounded, so that steps that are equal on paper tie: between two measured points all of them are.
            gain, rise = np.round(more / speed[:, 1:], 12), np.round(more / speed[:, :-1], 12)
        last = gain.shape[1]
        stops = np.where(gain > 0, last, np.arange(last))
        stop = np.minimum.accumulate(stops[:, ::-1], axis=1)[:, ::-1]
        return SpeedTable(speed=speed, gain=gain, rise=rise, stop=stop)


# Tables of the profiles that were asked for last; the same tuple comes back round after round.
_KEPT = 8
_tables: dict[tuple[int, int, int], tuple[tuple[Profile, ...], SpeedTable]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """Throughput of the jobs of a table.

    Attributes:
        row: (n,) row of each job in ``table``.
        table: Speed by number of GPUs, relative to one GPU. Rises up to its peak and is flat from there on.
        work_s: (n,) remaining time on one GPU, seconds; +inf when unknown.
    """

    row: IntArray
    table: SpeedTable
    work_s: FloatArray

    def time_s(self, num_gpus: IntArray) -> FloatArray:
        """Return (n,) remaining times with so many GPUs each, at least one, seconds."""
        time_s: FloatArray = self.work_s / self.table.speed[self.row, num_gpus]
        return time_s


def curves_of(jobs: JobTable) -> Curves:
    """Return the curves of the jobs, whose ``remaining_s`` is stated for ``num_gpus``; servers play no part."""
    most = int(max(jobs.max_gpus.max(initial=1), jobs.num_gpus.max(initial=1)))
    table = speed_table(jobs.profiles, _rounded_up(most))
    row = np.where(jobs.profile == NO_ROW, len(jobs.profiles), jobs.profile)
    return Curves(row=row, table=table, work_s=jobs.remaining_s * table.speed[row, jobs.num_gpus])


def speed_table(profiles: tuple[Profile, ...], most_gpus: int, *, server_gpus: int = 0) -> SpeedTable:
    """Return the speeds with 0 .. ``most_gpus + 1`` GPUs, one row a profile; the last is linear, for the unknown."""
    key = (id(profiles), most_gpus, server_gpus)
    kept = _tables.get(key)
    if kept is not None and kept[0] is profiles:
        return kept[1]
    counts = range(most_gpus + 2)
    speeds = [[_speed(profile, count, server_gpus) for count in counts] for profile in (*profiles, Profile())]
    table = SpeedTable.of(np.maximum.accumulate(np.array(speeds), axis=1))
    while len(_tables) >= _KEPT:
        _tables.pop(next(iter(_tables)))
    _tables[key] = (profiles, table)
    return table


def _speed(profile: Profile, count: int, server_gpus: int) -> float:
    if not count:
        return 0.0
    servers = math.ceil(count / server_gpus) if server_gpus else 1
    return scaling(profile, count) * locality(profile, num_servers=servers, num_gpus=count)


def _rounded_up(count: int) -> int:
    """Return a power of two, so that a wider job now and then does not need a new table."""
    return 1 << max(5, (count - 1).bit_length())
