"""How far one job gets under CoDDL's three resource managers while its share changes again and again.

Source: Hwang et al., "AFS", NSDI 2021, section 5 (CoDDL).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scheduler.simulator.state.costs import Manager, ReconfigurationCosts


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A time during which a job ran on the same GPUs, or stood still (0 GPUs). Times in seconds."""

    begin_s: float
    end_s: float
    num_gpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedChanges:
    """The effect of a sequence of share changes on one job.

    Attributes:
        stretches: What it did, in order and without gaps.
        work: Work done: speed times seconds.
        paused_s: Time during which it stood still although it had a share.
        carried_out: Changes that took effect.
        cancelled: Changes that were overtaken and dropped.
    """

    stretches: tuple[Stretch, ...]
    work: float
    paused_s: float
    carried_out: int
    cancelled: int


# A share from a moment on: (seconds, GPUs).
Change = tuple[float, int]


def coalesced(changes: Sequence[Change], window_s: float) -> list[Change]:
    """Return the changes where those within ``window_s`` of a first one are the last of them, at the window's end."""
    merged: list[Change] = []
    opened_s = -math.inf
    for at_s, num_gpus in changes:
        if at_s < opened_s + window_s:
            merged[-1] = (merged[-1][0], num_gpus)
        else:
            merged.append((at_s + window_s, num_gpus))
            opened_s = at_s
    return merged


def thrashing_replay(
    changes: Sequence[Change],
    speed: Callable[[int], float],
    costs: ReconfigurationCosts,
    *,
    start_gpus: int,
    until_s: float,
) -> ReplayedChanges:
    """Return how far one job gets while its share changes again and again.

    Args:
        changes: New shares in the order of time, each at least one GPU.
        speed: Speed by number of GPUs.
        costs: The manager. Without cancelling, changes are carried out one after another, each in full.
        start_gpus: GPUs it runs on at time 0.
        until_s: End of the replay.
    """
    replay = _Replay(costs, start_gpus)
    for at_s, num_gpus in coalesced(changes, costs.debounce_s) if costs.debounce_s else changes:
        if at_s < until_s:
            replay.change(at_s, num_gpus)
    stretches = replay.stretches(until_s)
    return ReplayedChanges(
        stretches=stretches,
        work=sum((s.end_s - s.begin_s) * speed(s.num_gpus) for s in stretches if s.num_gpus),
        paused_s=sum(s.end_s - s.begin_s for s in stretches if not s.num_gpus),
        carried_out=replay.carried_out,
        cancelled=replay.cancelled,
    )


class _Replay:
    """One job under a manager. ``_marks`` says from when on it runs on how many GPUs."""

    def __init__(self, costs: ReconfigurationCosts, start_gpus: int) -> None:
        self._costs = costs
        self._marks: list[tuple[float, int]] = [(0.0, start_gpus)]
        self._gpus = start_gpus  # once all that was begun is through
        self._before = start_gpus  # while new workers of the last change start
        self._ready_s = -math.inf  # when the new workers of the last change are up
        self._free_s = 0.0  # when the last change is through
        self.carried_out = self.cancelled = 0

    def change(self, at_s: float, num_gpus: int) -> None:
        costs = self._costs
        if costs.manager == Manager.CONCURRENT_CANCEL and at_s < self._ready_s:
            self._cancel()
            at_s += costs.cancel_s if num_gpus != self._gpus else 0.0
        begin_s = max(at_s, self._free_s)
        if num_gpus == self._gpus:
            return
        grows = num_gpus > self._gpus
        waits_s = costs.init_s if grows or costs.manager == Manager.RESTART else 0.0
        paused_from_s = begin_s if costs.manager == Manager.RESTART else begin_s + waits_s
        self._before, self._gpus = self._gpus, num_gpus
        self._ready_s = begin_s + waits_s
        self._free_s = self._ready_s + costs.switch_over_s(num_gpus)
        self._marks += [(paused_from_s, 0), (self._free_s, num_gpus)]
        self.carried_out += 1

    def _cancel(self) -> None:
        """Drop the change whose workers are not up yet; the running group never noticed it."""
        del self._marks[-2:]
        self._gpus = self._before
        self._free_s = max(self._marks[-1][0], 0.0)
        self._ready_s = -math.inf
        self.carried_out -= 1
        self.cancelled += 1

    def stretches(self, until_s: float) -> tuple[Stretch, ...]:
        ends = [*(mark[0] for mark in self._marks[1:]), until_s]
        return tuple(
            Stretch(begin_s=begin_s, end_s=min(end_s, until_s), num_gpus=gpus)
            for (begin_s, gpus), end_s in zip(self._marks, ends, strict=True)
            if begin_s < min(end_s, until_s)
        )
