"""Who stays where the locality put it: a mechanism that knows nothing of the reason leaves it there.

The selection seats one job after the other, each where room is made for it first. Jobs that start in the same round
change places where that brings one back to its own server, since it would begin anew anywhere else.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace

from scheduler.core.config import Binds
from scheduler.core.packing.draft import Draft, Seats
from scheduler.core.tables import NO_ROW


def sent_home(draft: Draft, starts: Collection[int], locality: Binds) -> Draft:
    """Return the draft after the exchanges, with nobody movable whom the locality binds or who changed places.

    Args:
        draft: As selected.
        starts: Rows of the jobs that start in this round.
        locality: What knows where jobs were.
    """
    number = draft.jobs.job_id
    seats = draft.seats
    if not draft.needs.tight:  # else cores or memory may be short there
        seats = _exchanged(seats, {row: locality.home_of(int(number[row])) for row in starts})
    free = frozenset(
        row
        for row in draft.movable
        if seats[row] == draft.seats[row] and not locality.binds(int(number[row]), seats[row])
    )
    room = list(draft.room)
    for row in draft.movable - free:
        server, gpus = draft.seats[row][0]
        room[server] -= gpus
    return replace(draft, seats=seats, movable=free, room=tuple(room))


def _exchanged(seats: Mapping[int, Seats], home: Mapping[int, int]) -> Mapping[int, Seats]:
    """Return the seats after exchanges between jobs of the same size on one server, each of which brings one home."""
    abroad = {row: own for row, own in home.items() if len(seats[row]) == 1 and own != seats[row][0][0]}
    if all(own == NO_ROW for own in abroad.values()):
        return seats
    after = dict(seats)
    on: dict[tuple[int, int], list[int]] = {}
    for row in abroad:
        on.setdefault(seats[row][0], []).append(row)
    for row, own in abroad.items():
        here = after[row][0]
        there = (own, here[1])
        if here == there or not on.get(there):
            continue
        other = on[there].pop()
        on[here].remove(row)
        after[row], after[other] = (there,), (here,)
        if abroad[other] != here[0]:
            on[here].append(other)
    return after
