"""A gang: the ranks of one training, one process a GPU, on one server or on many, that train one model together.

    from agents.runtime import Run
    from agents.runtime.gang import join_gang

    gang = join_gang()                            # outside a gang: one rank that is alone
    run = Run(total_steps=1000, gang=gang)
    restore(run.resume(), model, **parts)         # the group is formed here; every rank gets the state of rank 0
    for step, rows in zip(run.steps(), batches):
        mine = gang.part(rows)                    # this rank's part of the global mini-batch
        optimizer.zero_grad()
        loss = loss_of(model, mine)
        loss.backward()
        loss = gang.average(model, loss, rows=len(mine), of=len(rows))
        optimizer.step()

Rank 0 leads: it alone writes checkpoints, and it alone decides between which two mini-batches a newer membership takes
effect (``gangs/membership.py``). The global mini-batch stays the same whatever the number of ranks.
"""

import io
import os
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from torch import Tensor

from agents.runtime.environment import GangPlace
from agents.runtime.gangs.interfaces import interface_of
from agents.runtime.gangs.membership import MembershipFile
from agents.runtime.gangs.rendezvous import STILL_S, Leader, Meeting
from agents.runtime.reports import say

# Exit code of a rank that ends because another one is gone, or because the group could not be formed.
EXIT_GANG_BROKEN = 76
# A new share takes effect once it has lasted this long; of several within that time only the last counts.
DEBOUNCE_S = 1.0

Handover = dict[str, Any]  # what a rank begins with: "step" and "state" as in a checkpoint


def join_gang(environ: Mapping[str, str] | None = None, *, debounce_s: float = DEBOUNCE_S) -> "Gang":
    """Return this process's place in its gang. Nothing is waited for before ``Run.resume`` or the first step.

    Args:
        environ: Where the variables are read from; None = the environment of the process.
        debounce_s: How long a share must have lasted before the gang changes to it, seconds.
    """
    return Gang(GangPlace.parse(os.environ if environ is None else environ), debounce_s=debounce_s)


class Gang:
    """One rank's view of its gang.

    Attributes:
        rank: From 0; may change at a boundary.
        size: Ranks that train now.
        num_switches: How often the group was formed anew.
        pause_s: How long training stood still for the newest switch, seconds.
    """

    def __init__(self, place: GangPlace | None, *, debounce_s: float) -> None:
        self.rank, self.size = (place.rank, place.size) if place else (0, 1)
        self.num_switches = 0
        self.pause_s = 0.0
        self._place, self._debounce_s = place, debounce_s
        self._meeting: Meeting | None = None
        self._group: dist.ProcessGroup | None = None  # by which the ranks agree and hand over; None = the default one
        self._leader: Leader | None = None
        self._next_group = 0

    @property
    def is_leader(self) -> bool:
        """Return whether this rank writes checkpoints."""
        return self.rank == 0

    @property
    def tells(self) -> bool:
        """Return whether this rank has a report file of its own."""
        return True

    @property
    def version(self) -> int | None:
        """Return the newest membership that is done with; None but in the leader of a gang."""
        return None if self._leader is None else self._leader.version

    def part(self, rows: Tensor) -> Tensor:
        """Return this rank's part of a global mini-batch; parts differ by at most one row and may be empty."""
        return rows.tensor_split(self.size)[self.rank]

    def average(self, model: torch.nn.Module, loss: Tensor | None, *, rows: int, of: int) -> Tensor:
        """Make the gradients those of the whole mini-batch, and return its mean loss. Call it after ``backward``.

        Args:
            model: Its gradients are those of the mean loss over this rank's rows.
            loss: That mean; None where this rank has no rows.
            rows: Rows of this rank.
            of: Rows of all ranks.
        """
        if self.size == 1:
            assert loss is not None
            return loss.detach()
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        pieces = [torch.zeros_like(one) if one.grad is None else one.grad for one in trained]
        mine = torch.zeros_like(pieces[0].flatten()[:1]) if loss is None else loss.detach().to(pieces[0]).reshape(1)
        flat = torch.cat([piece.flatten() for piece in (*pieces, mine)]).mul_(rows / of)
        self._all_reduce(flat, dist.ReduceOp.SUM)
        *averaged, total = torch.split(flat, [*(piece.numel() for piece in pieces), 1])
        for parameter, gradient in zip(trained, averaged, strict=True):
            parameter.grad = gradient.view_as(parameter)
        return total[0]

    # For the run

    def enter(self, handover: Callable[[], Handover], *, wants_to_stop: Callable[[], bool]) -> Handover | None:
        """Wait until this rank is in a group, and return what it begins with; None when it is to go before that.

        Args:
            handover: The state that every rank begins with; called in the leader alone.
            wants_to_stop: Looked at while waiting.
        """
        if self._place is None:
            return handover()
        place = self._place
        _use_interface(place.own_address)
        try:
            self._meeting = Meeting(
                address=place.address,
                port=place.port,
                secret=place.secret,
                member=place.member,
                is_leader=place.rank == 0,
            )
            if place.rank == 0:
                file = MembershipFile(place.membership_file, clock=time.monotonic)
                self._leader = Leader(self._meeting, file, member=place.member, debounce_s=self._debounce_s)
                is_called = self._leader.first(wants_to_stop=wants_to_stop)
            else:
                is_called = self._meeting.await_call(version=place.version, wants_to_stop=wants_to_stop)
            if not is_called:
                return None
            self._form(self._meeting)
        except RuntimeError as error:
            _broken(f"the ranks did not meet at {place.address}:{place.port}", error)
        return self._hand_over(handover)

    def agree(self, wishes: Sequence[bool], *, may_switch: bool = False) -> list[bool]:
        """Return which of the wishes any rank has, the same in all ranks. One small all-reduce.

        Args:
            wishes: Of this rank.
            may_switch: After a step, where ranks may join: the same call tells all of a switch, see ``is_switch_due``.
        """
        if self._meeting is None:
            return list(wishes)
        try:
            due = self._leader.due() if self._leader is not None and may_switch else 0
        except RuntimeError as error:
            _broken("the store is gone", error)
        ballot = torch.tensor([*map(int, wishes), due])
        if self.size > 1:
            self._all_reduce(ballot, dist.ReduceOp.MAX)
        *agreed, group = ballot.tolist()
        if may_switch:
            self._next_group = group
        return [bool(wish) for wish in agreed]

    @property
    def is_switch_due(self) -> bool:
        """Return whether the group is to be formed anew at this boundary, as agreed."""
        return self._meeting is not None and self._next_group > self._meeting.group

    def switch(self, handover: Callable[[], Handover]) -> bool:
        """Form the agreed group; return whether this rank is still in it. Training stands still meanwhile.

        Args:
            handover: What new ranks begin with; called in the leader alone, and only if there are any.
        """
        began_s = time.monotonic()
        assert self._place is not None
        assert self._meeting is not None
        before = set(self._meeting.members.ids)
        try:
            self._meeting.join(self._next_group)
            dist.destroy_process_group()
            if self._place.member not in self._meeting.members.ids:
                return False
            self._form(self._meeting)
        except RuntimeError as error:
            _broken("the group could not be formed anew", error)
        if set(self._meeting.members.ids) - before:
            self._hand_over(handover)
        self.pause_s = time.monotonic() - began_s
        self.num_switches += 1
        return True

    def _form(self, meeting: Meeting) -> None:
        assert self._place is not None
        members = meeting.members.ids
        self.rank, self.size = members.index(self._place.member), len(members)
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo",
            store=meeting.group_store(),
            rank=self.rank,
            world_size=self.size,
            timeout=timedelta(seconds=STILL_S),
        )

    def _hand_over(self, handover: Callable[[], Handover]) -> Handover:
        """Return the leader's handover, in every rank."""
        given = handover() if self.is_leader else {}
        buffer = io.BytesIO()
        torch.save(given, buffer)
        size = torch.tensor([buffer.getbuffer().nbytes])
        self._broadcast(size)
        content = torch.empty(int(size), dtype=torch.uint8)
        if self.is_leader:
            content = torch.frombuffer(buffer.getbuffer(), dtype=torch.uint8)
        self._broadcast(content)
        if self.is_leader:
            return given
        received: Handover = torch.load(io.BytesIO(content.numpy().tobytes()), map_location="cpu", weights_only=True)
        return received

    def _broadcast(self, tensor: Tensor) -> None:
        if self.size == 1:
            return
        try:
            dist.broadcast(tensor, src=0, group=self._group)
        except RuntimeError as error:
            _broken("a rank is gone", error)

    def _all_reduce(
        self,
        tensor: Tensor,
        operation: Any,  # an enumeration that torch does not type
        group: dist.ProcessGroup | None = None,
    ) -> None:
        try:
            dist.all_reduce(tensor, operation, group)
        except RuntimeError as error:
            _broken("a rank is gone", error)


def _use_interface(address: str) -> None:
    """Let the ranks talk over the interface by which the other servers reach this one."""
    name = interface_of(address)
    if name:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", name)
        os.environ.setdefault("NCCL_SOCKET_IFNAME", name)


def _broken(what: str, error: RuntimeError) -> NoReturn:
    """End this rank with an exit code that says that the cause lies with another rank."""
    say(f"{what}, so this rank ends: {str(error).splitlines()[0][:200]}")
    raise SystemExit(EXIT_GANG_BROKEN) from None
