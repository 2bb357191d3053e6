"""The ranks of a script that forms its process group itself, as one that torchrun or a framework starts, as a gang.

    dist.init_process_group("nccl")
    gang = own_group()                            # one process: a rank that is alone
    run = Run(total_steps=1000, gang=gang)
    state = run.resume()                          # every rank gets what rank 0 was started with

All ranks stop, and save, at the same step: each learns at every boundary, in one small all-reduce, what any of them was
told. Their number does not change.
"""

import os
from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist

from agents.runtime.gang import Gang, Handover, join_gang


def own_group() -> Gang:
    """Return the place of this process among the ranks of the default group; alone where there is no group."""
    if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
        return _OwnGroup()
    return join_gang({})


class _OwnGroup(Gang):
    """One rank's view of the default group."""

    def __init__(self) -> None:
        super().__init__(None, debounce_s=0.0)
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        # What they agree on goes by the CPU, so that no rank waits for its GPU at a boundary.
        self._group = dist.new_group(backend="gloo")

    @property
    def tells(self) -> bool:
        """Return whether this is the first rank of its server: all of them have the variables of one attempt."""
        return os.environ.get("LOCAL_RANK", "0") == "0"

    def enter(self, handover: Callable[[], Handover], *, wants_to_stop: Callable[[], bool]) -> Handover | None:
        """Return the leader's handover, in every rank. The group is there, so nothing is waited for."""
        return self._hand_over(handover)

    def agree(self, wishes: Sequence[bool], *, may_switch: bool = False) -> list[bool]:
        """Return which of the wishes any rank has, the same in all ranks."""
        ballot = torch.tensor([*map(int, wishes)])
        self._all_reduce(ballot, dist.ReduceOp.MAX, self._group)
        return [bool(wish) for wish in ballot.tolist()]
