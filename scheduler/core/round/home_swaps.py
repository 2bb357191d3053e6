"""Swap starting jobs of equal size so that each returns to its previous server, where it can resume at once.

The selection seats one job after the other on the first room that is made; it does not look back. Used under
localities that bind jobs to servers (``Binds``); the mechanism afterwards leaves these jobs where they are.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace

from scheduler.core.model.tables import NO_ROW
from scheduler.core.packing.draft import Draft, Seats
from scheduler.core.packing.locality import Binds


def sent_home(draft: Draft, starts: Collection[int], locality: Binds) -> Draft:
    """Return the draft after the swaps; jobs that the locality binds or that were swapped are no longer movable.

    Args:
        draft: As selected.
        starts: Rows of the jobs that start in this round.
        locality: Knows where jobs were, and which may not be moved.
    """
    number, seats = draft.jobs.job_id.tolist(), draft.seats
    if not draft.needs.tight:  # else cores or memory may be short there
        loose = [row for row in starts if len(seats[row]) == 1 and not locality.binds(number[row], seats[row])]
        seats = _exchanged(seats, {row: locality.home_of(number[row]) for row in loose})
    free = frozenset(
        row for row in draft.movable if seats[row] == draft.seats[row] and not locality.binds(number[row], seats[row])
    )
    room = list(draft.room)
    for row in draft.movable - free:
        server, gpus = draft.seats[row][0]
        room[server] -= gpus
    return replace(draft, seats=seats, movable=free, room=tuple(room))


def _exchanged(seats: Mapping[int, Seats], home: Mapping[int, int]) -> Mapping[int, Seats]:
    """Return the seats after swaps between jobs of the same size, each of which brings at least one job home.

    Args:
        seats: Where each job sits.
        home: Previous server of each job that may be swapped; each is on one server, and not on that one.
    """
    if all(own == NO_ROW for own in home.values()):
        return seats
    after = dict(seats)
    on: dict[tuple[int, int], list[int]] = {}
    for row in home:
        on.setdefault(seats[row][0], []).append(row)
    for row, own in home.items():
        here = after[row][0]
        there = (own, here[1])
        if here == there or not on.get(there):
            continue
        other = on[there].pop()
        on[here].remove(row)
        after[row], after[other] = (there,), (here,)
        if home[other] != here[0]:
            on[here].append(other)
    return after
