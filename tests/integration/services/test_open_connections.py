"""Slots of open connections: counted, given back, and free again when their process was killed."""

import pytest
from django.core.cache import cache, caches

from scheduler.services import open_connections
from scheduler.services.open_connections import ConnectionSlot


@pytest.fixture(autouse=True)
def _clean() -> None:
    cache.clear()


def slot(user: int = 1, kind: str = "socket") -> ConnectionSlot:
    """Return a slot of a user who may have two."""
    return ConnectionSlot(kind, user, most=2)


def test_slots_are_counted_for_each_user_and_kind() -> None:
    """Others' connections, and those of another kind, take none."""
    taken = [slot().take() for _ in range(3)]

    assert taken == [True, True, False]
    assert slot(user=2).take()
    assert slot(kind="log").take()


def test_slot_that_is_given_back_is_free() -> None:
    """Giving back twice, or what was never had, frees nothing of others."""
    first, second, refused = slot(), slot(), slot()
    assert (first.take(), second.take(), refused.take()) == (True, True, False)
    refused.give_back()
    first.give_back()
    first.give_back()

    assert (slot().take(), slot().take()) == (True, False)


def test_slot_of_a_killed_process_ends_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing renews it."""
    monkeypatch.setattr(open_connections, "SLOT_S", -1)
    assert (slot().take(), slot().take()) == (True, True)
    monkeypatch.setattr(open_connections, "SLOT_S", 60)

    assert slot().take()


def test_renewed_slot_is_held_and_one_that_was_lost_is_taken_anew() -> None:
    """The broker may forget all: then those that live count again."""
    first, second = slot(), slot()
    assert (first.take(), second.take()) == (True, True)
    first.renew()
    caches["shared"].clear()
    first.renew()
    second.renew()

    assert not slot().take()
