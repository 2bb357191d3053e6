"""Search for room for gangs: which server has enough once preemption candidates have left.

Used in replays of one queue. Twin: ``PreemptionSearch`` in core/packing/preemption/search.py, for many queues.
tests/property/test_simulator_short_rounds.py holds the plans of both equal.
"""

from collections.abc import Callable, Mapping, Sequence

from scheduler.core.model.tables import NO_ROW
from scheduler.core.packing.draft import Seats
from scheduler.core.packing.free_gpus import Fits, FreeGpus
from scheduler.core.packing.seating import fewest_victims
from scheduler.simulator.incremental.walks.preemption_candidates import Key, PreemptionCandidates

# Whether a row may use so many GPUs of a server, and has enough cores and memory once other rows have left it.
FitsAfter = Callable[[int, int, int, Sequence[int]], bool]


class GangRoom:
    """Finds room for gangs of one shape among free GPUs and those of preemption candidates.

    It goes past the candidates, weakest first, until some server would have enough without those passed; the next gang
    of the shape goes on from there.
    """

    __slots__ = (
        "_at",
        "_candidates",
        "_fits_after",
        "_found",
        "_gain",
        "_num_gpus",
        "_passed",
        "_seats",
        "_space",
        "_spent",
        "_trail",
    )

    def __init__(
        self,
        candidates: PreemptionCandidates,
        space: FreeGpus,
        seats: Mapping[int, Seats],
        num_gpus: int,
        fits_after: FitsAfter | None,
    ) -> None:
        """Begin before the weakest; ``fits_after`` is that of a ``Board``, None where only GPUs count."""
        self._fits_after = fits_after
        self._candidates, self._space, self._seats, self._num_gpus = candidates, space, seats, num_gpus
        self._at = 0
        self._spent = False  # no set of servers had room; there is only less room later
        # Keys of the candidates passed, in that order; and by server the rows of those that still sit, in that order,
        # and the sum of their GPUs.
        self._trail: list[Key] = []
        self._passed: dict[int, list[int]] = {}
        self._gain: dict[int, int] = {}
        self._found: list[int] = []  # servers that had enough when last looked at

    def leave(self, row: int, seats: Seats) -> None:
        """Note that a candidate left its seats: look at these servers again."""
        passed = self._passed
        for server, gpus in seats:
            rows = passed.get(server)
            if rows is not None:
                self._found.append(server)
                if row in rows:
                    rows.remove(row)
                    self._gain[server] -= gpus

    def _retreat(self, key: Key) -> None:
        """Forget the candidates that are stronger than the job that asks now."""
        trail, seats, gone, passed, gain = self._trail, self._seats, self._candidates.gone, self._passed, self._gain
        while trail and trail[-1] < key:
            row = trail.pop()[3]
            if row not in gone:
                for server, gpus in seats[row]:
                    passed[server].pop()  # those passed after it are forgotten already
                    gain[server] -= gpus

    def one_server(self, key: Key) -> int:
        """Return a server that holds the whole gang once the candidates of ``victims`` have left, or NO_ROW."""
        trail, found = self._trail, self._found
        if trail and trail[-1] < key:
            self._retreat(key)
        free, gain, num_gpus = self._space.free, self._gain, self._num_gpus
        while found:
            if free[found[-1]] + gain[found[-1]] >= num_gpus and self._fits(key[3], found[-1], num_gpus):
                return found[-1]
            found.pop()
        candidates, seats, passed, at = self._candidates, self._seats, self._passed, self._at
        order, gone = candidates.order, candidates.gone
        while at < len(order) or candidates.more(key):
            other = order[at]
            if other < key:
                break
            at += 1
            row = other[3]
            if row in gone:
                continue
            trail.append(other)
            for server, gpus in seats[row]:
                if server in passed:
                    passed[server].append(row)
                    gain[server] += gpus
                else:
                    passed[server] = [row]
                    gain[server] = gpus
            for server, _ in seats[row]:
                if free[server] + gain[server] >= num_gpus and self._fits(key[3], server, num_gpus):
                    found.append(server)
                    self._at = at
                    return server
        self._at = at
        return NO_ROW

    def reach(self) -> int:
        """Return the GPUs that are free or held by weaker jobs; after ``one_server`` found none."""
        return self._space.total + sum(self._gain.values())

    def _fits(self, row: int, server: int, gpus: int) -> bool:
        """Return whether cores and memory are enough for a row once all weaker jobs have left the server."""
        return self._fits_after is None or self._fits_after(row, server, gpus, self._passed.get(server, ()))

    def several_servers(self, row: int, choose: Callable[[FreeGpus, Fits | None], Seats]) -> Seats:
        """Return seats on several servers once all weaker jobs have left, or nothing; after ``one_server``."""
        if self._spent:
            return ()
        fits = (lambda server, gpus: self._fits(row, server, gpus)) if self._fits_after else None
        seats = choose(self._space.with_more(self._gain), fits)
        self._spent = not seats
        return seats

    def victims(self, row: int, server: int, gpus: int) -> list[int]:
        """Return the victims on the server that let ``gpus`` of the row fit: the least important, and none in vain."""
        passed, seats_of, fits_after = self._passed.get(server, ()), self._seats, self._fits_after
        candidates = ((other, sum([held for at, held in seats_of[other] if at == server])) for other in passed)
        missing = gpus - self._space.free[server]
        if fits_after is None:
            return fewest_victims(candidates, missing)
        return fewest_victims(
            candidates, missing, lambda leaving: fits_after(row, server, gpus, [other for other, _ in leaving])
        )
