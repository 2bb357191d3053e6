"""Running jobs by the moment at which their leases end, so that a round looks only at those whose leases end then."""

from bisect import bisect_left, insort

# Times of rounds are sums of floats.
_DUST_S = 1e-3


class Leased:
    """Who sits, by phase: the time at which it took its seats, modulo the length of a lease."""

    def __init__(self, lease_s: float) -> None:
        """Begin with nobody; a lease lasts ``lease_s`` > 0."""
        self._lease_s = lease_s
        self._line: list[tuple[float, int]] = []
        self._phase: dict[int, float] = {}

    def sit(self, row: int, held_at_s: float) -> None:
        """Note a job that took its seats."""
        phase = self._phase[row] = held_at_s % self._lease_s
        insort(self._line, (phase, row))

    def leave(self, row: int) -> None:
        """Note a job that left its seats."""
        del self._line[bisect_left(self._line, (self._phase.pop(row), row))]

    def ending(self, now_s: float, window_s: float) -> list[int]:
        """Return all whose leases ended in the ``window_s`` seconds before now, and maybe others."""
        if window_s + 2 * _DUST_S >= self._lease_s:
            return list(self._phase)
        last = now_s % self._lease_s + _DUST_S
        first = last - window_s - 2 * _DUST_S
        rows = self._between(first, last)
        if first < 0:
            rows += self._between(first + self._lease_s, self._lease_s)
        elif last > self._lease_s:
            rows += self._between(0.0, last - self._lease_s)
        return rows

    def _between(self, first: float, last: float) -> list[int]:
        line = self._line
        return [row for _, row in line[bisect_left(line, (first, -1)) : bisect_left(line, (last, -1))]]
