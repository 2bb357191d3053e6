"""The seat rules shared by all walks, on a board where only GPUs count."""

import numpy as np

from scheduler.core.model.tables import ServerTable
from scheduler.core.packing.seating import GpuBoard, Seating, are_free, fewest_victims, one_gpu


def _walk(shape: list[int], *seated: int) -> tuple[GpuBoard, Seating]:
    """Return a walk on two servers of 4 GPUs; row i sits with 2 GPUs on server ``seated[i]``."""
    servers = ServerTable(
        server_id=np.arange(2),
        num_gpus=np.full(2, 4),
        num_cpus=np.full(2, 8.0),
        memory_bytes=np.full(2, 1e9),
        rack=np.zeros(2, dtype=np.int64),
    )
    board = GpuBoard(servers)
    for row, server in enumerate(seated):
        board.sit(row, ((server, 2),))
    return board, Seating(board, shape)


def test_a_victim_hands_over_its_seats() -> None:
    """The victim is displaced, the other row sits there, and what is free does not change."""
    board, seating = _walk([0, 0], 0)

    seating.take(1, ((0, 2),), [0])

    assert board.seats == {1: ((0, 2),)}
    assert (seating.displaced, seating.on_free) == ({0: 1}, set())
    assert seating.started() == {1: ((0, 2),)}
    assert board.space.free == [2, 4]


def test_a_row_that_gets_its_own_seats_back_was_not_displaced() -> None:
    """The row that took its seats, and gives them up, displaced the next victim instead."""
    _, seating = _walk([0, 0, 1], 0, 1)
    seating.take(2, ((0, 2),), [0])

    swapped = seating.take(0, ((0, 2),), [])

    assert not swapped
    assert seating.displaced == {}
    assert seating.started() == {2: ((0, 2),)}


def test_seats_on_two_servers_are_the_same_in_any_order() -> None:
    """A search names the server first on which it took most; the row sits where it sat."""
    board, seating = _walk([0, 1, 2])
    board.sit(0, ((0, 2), (1, 4)))
    board.sit(1, ((0, 1),))
    seating.take(2, ((0, 1),), [0])

    seating.take(0, ((1, 4), (0, 2)), [1])

    assert board.seats == {0: ((0, 2), (1, 4)), 2: ((0, 1),)}
    assert seating.displaced == {1: 2}
    assert seating.started() == {2: ((0, 1),)}


def test_rows_that_ask_for_the_same_swap_seats_to_spare_a_move() -> None:
    """A displaced row that finds seats elsewhere goes home; its victim counts as displaced by the other row."""
    board, seating = _walk([0, 0, 0], 0, 1)
    seating.take(2, ((0, 2),), [0])

    swapped = seating.take(0, ((1, 2),), [1])

    assert swapped
    assert board.seats == {0: ((0, 2),), 2: ((1, 2),)}
    assert seating.displaced == {1: 2}
    assert seating.started() == {2: ((1, 2),)}


def test_rows_that_ask_for_different_things_do_not_swap() -> None:
    """Another shape may not fit on the seats of the first."""
    board, seating = _walk([0, 0, 1], 0, 1)
    seating.take(2, ((0, 2),), [0])

    assert not seating.take(0, ((1, 2),), [1])
    assert seating.displaced == {0: 2, 1: 0}
    assert board.seats == {2: ((0, 2),), 0: ((1, 2),)}


def test_undo_puts_every_row_back() -> None:
    """Board and free GPUs are as before the walk."""
    board, seating = _walk([0, 0, 0, 1], 0, 1)
    seating.take(2, ((0, 2),), [0])
    seating.take(0, ((1, 2),), [1])
    seating.take(3, ((0, 1), (1, 1)), [])

    seating.undo()

    assert board.seats == {0: ((0, 2),), 1: ((1, 2),)}
    assert board.space.free == [2, 2]


def test_home_is_free_only_while_all_its_gpus_are() -> None:
    """A displaced row goes home when its seats are free again, and fit."""
    board, seating = _walk([0, 1], 0)
    seating.take(1, ((0, 3),), [0])

    assert seating.home(0) == ()
    board.leave(1)
    assert seating.home(0) == ((0, 2),)
    assert seating.home(0, lambda server, gpus: False) == ()
    assert not are_free(board.space, ((0, 5),), None)


def test_no_victim_leaves_in_vain() -> None:
    """Candidates are taken least important first; those that a later one makes needless stay, the last first."""
    assert fewest_victims([(5, 1), (6, 1), (7, 4)], 4) == [7]
    assert fewest_victims([(5, 2), (6, 1), (7, 4)], 3) == [5, 6]
    assert fewest_victims([(5, 1), (6, 4)], 1, lambda leaving: len(leaving) == 2) == [5, 6]
    assert one_gpu(((3, 2), (1, 1))) == ((1, 1),)
