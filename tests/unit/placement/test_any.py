"""Any free GPUs."""

import pytest

from scheduler.placement.any import AnyGpus
from tests.support.simulator.spaces import gang_of, space_of


@pytest.mark.parametrize(
    ("free", "num_gpus", "max_servers", "seats"),
    [
        ([8, 3, 1], 1, 0, ((2, 1),)),
        ([8, 3, 1], 4, 0, ((2, 1), (1, 3))),
        ([8, 3, 1], 5, 0, ((2, 1), (1, 3), (0, 1))),
        ([8, 3, 1], 4, 1, ((0, 4),)),
        ([8, 3, 1], 5, 2, ((1, 3), (0, 2))),
        ([2, 2, 2, 8], 6, 2, ((2, 2), (3, 4))),
        ([4, 2], 2, 0, ((1, 2),)),
        ([0, 8, 1, 2], 2, 0, ((2, 1), (3, 1))),
        ([0, 2, 0, 2], 4, 0, ((1, 2), (3, 2))),
        ([2, 2, 2], 6, 2, ()),
        ([2, 2], 5, 0, ()),
        ([], 1, 0, ()),
    ],
)
def test_leftovers_are_used_first(
    free: list[int], num_gpus: int, max_servers: int, seats: tuple[tuple[int, int], ...]
) -> None:
    """The servers with the fewest free GPUs come first, as long as few enough of them are enough."""
    assert AnyGpus().seats(space_of(free), gang_of(num_gpus, max_servers=max_servers)) == seats


def test_only_what_cores_allow_counts() -> None:
    """A server whose cores are enough for one GPU of the gang gives one."""
    gang = gang_of(4, fits=lambda server, gpus: server > 0 or gpus <= 1)

    assert AnyGpus().seats(space_of([2, 3]), gang) == ((0, 1), (1, 3))
    assert AnyGpus().seats(space_of([4, 2]), gang) == ()
