"""What every locality holds, whatever is free."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.packing.free_gpus import Gang, FreeGpus
from scheduler.core.packing.locality import Locality
from scheduler.placement import LOCALITIES
from scheduler.placement.relax import ANYWHERE
from tests.support.simulator.spaces import gang_of, space_of
from tests.support.suite.examples import tried

every_locality = pytest.mark.parametrize("locality", [kind() for kind in LOCALITIES.values()], ids=LOCALITIES)
# Localities that only prefer some servers: whoever fits somewhere gets seats. The others may let a job wait.
prefers = pytest.mark.parametrize(
    "locality", [LOCALITIES[name]() for name in ("any", "consolidate", "affinity")], ids=str
)
quick = tried(100)

# The cores of each server in units of a GPU's share; a gang may need more than one unit a GPU.
Case = tuple[FreeGpus, Gang]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """One to eight servers, partly used, in up to three racks, and a gang that may be wide, bounded or hungry."""
    gpus = draw(st.lists(st.sampled_from([1, 2, 4, 8]), min_size=1, max_size=8))
    free = [draw(st.integers(0, most)) for most in gpus]
    sizes = [
        {draw(st.sampled_from([1, 2, 3, 4, 8])): most - left} if most > left else {}
        for most, left in zip(gpus, free, strict=True)
    ]
    racks = [draw(st.integers(0, 2)) for _ in gpus]
    num_gpus = draw(st.integers(1, 20))
    max_servers = draw(st.sampled_from([0, 0, 1, 2, 3]))
    level = draw(st.integers(0, 3))
    units = [draw(st.integers(0, 2 * most)) for most in gpus]
    hungry = draw(st.booleans())
    return space_of(free, gpus=gpus, racks=racks, sizes=sizes), gang_of(
        num_gpus,
        max_servers=max_servers,
        least_servers=_least(gpus, num_gpus),
        kind=(float(level),),
        fits=(lambda server, count: count * 1.5 <= units[server]) if hungry else None,
    )


def _least(gpus: list[int], num_gpus: int) -> int:
    used = total = 0
    for count in sorted(gpus, reverse=True):
        if total < num_gpus:
            total, used = total + count, used + 1
    return used


def _kind(locality: Locality, gang: Gang) -> Gang:
    """Return the gang as the locality would describe it."""
    kinds = {"relax": gang.kind, "skew": (float(gang.kind[0] > 1),)}
    return replace(gang, kind=kinds.get(locality.name, ()))


def _fitting(space: FreeGpus, gang: Gang) -> list[int]:
    counts = []
    for server, free in enumerate(space.free):
        count = min(free, gang.num_gpus)
        while gang.fits is not None and count and not gang.fits(server, count):
            count -= 1
        counts.append(count)
    counts.sort(reverse=True)
    return counts[: gang.max_servers or None]


@every_locality
@quick
@given(case=cases())
def test_seats_are_free_whole_and_few_enough(locality: Locality, case: Case) -> None:
    """No server gives more than is free or fits, none is named twice, the gang is whole and within its bound."""
    space, gang = case[0], _kind(locality, case[1])
    before = list(space.free)

    seats = locality.seats(space, gang)

    assert space.free == before
    if seats:
        assert sum(count for _, count in seats) == gang.num_gpus
        assert len({server for server, _ in seats}) == len(seats) <= (gang.max_servers or len(before))
        assert all(0 < count <= before[server] for server, count in seats)
        assert all(gang.fits is None or gang.fits(server, count) for server, count in seats)


@every_locality
@quick
@given(case=cases())
def test_seats_depend_on_what_is_free_only(locality: Locality, case: Case) -> None:
    """Asking again, and after somebody came and went, gives the same seats."""
    space, gang = case[0], _kind(locality, case[1])
    first = locality.seats(space, gang)
    for server, free in enumerate(space.free):
        space.take(server, free)
        space.give(server, free)

    assert locality.seats(space, gang) == first


@prefers
@quick
@given(case=cases())
def test_whoever_fits_somewhere_gets_seats(locality: Locality, case: Case) -> None:
    """Localities that only prefer never let a gang wait that fits on some set of servers."""
    space, gang = case[0], _kind(locality, case[1])

    fits = sum(_fitting(space, gang)) >= gang.num_gpus
    # Servers that fit but are not the emptiest may be missed when cores bind and servers are bounded.
    assert bool(locality.seats(space, gang)) == fits or (gang.fits is not None and fits and locality.name != "any")


@every_locality
@quick
@given(case=cases(), more=st.lists(st.integers(0, 8), min_size=8, max_size=8))
def test_more_free_gpus_never_hurt(locality: Locality, case: Case, more: list[int]) -> None:
    """A gang that got seats gets some when more GPUs are free on the same servers."""
    space, gang = case[0], replace(_kind(locality, case[1]), fits=None)
    if locality.seats(space, gang):
        gpus = list(space.topology.gpus)
        roomier = [min(most, free + extra) for most, free, extra in zip(gpus, space.free, more, strict=False)]

        assert locality.seats(FreeGpus(roomier, space.topology, space.sizes), gang)


@quick
@given(case=cases())
def test_relaxing_never_hurts(case: Case) -> None:
    """What a level of Philly allows, the next level allows too, on as few servers; on the last, whoever fits runs."""
    space, gang = case[0], replace(case[1], fits=None)
    relax = LOCALITIES["relax"]()
    seats = [relax.seats(space, replace(gang, kind=(float(level),))) for level in range(4)]
    racks = [{space.topology.rack[server] for server, _ in found} for found in seats]

    assert all(not strict or relaxed for strict, relaxed in pairwise(seats))
    assert all(len(found) <= 1 for found in racks[:ANYWHERE])
    assert len(seats[0]) <= gang.least_servers
    assert len(seats[1]) <= 2 * gang.least_servers
    assert bool(seats[ANYWHERE]) == (sum(_fitting(space, gang)) >= gang.num_gpus)
