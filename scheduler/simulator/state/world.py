"""The simulated cluster: jobs arrive, run at the speed of what they hold, fail, end.

Time passes in ``advance``; what a planner decided takes effect in ``carry_out``. Nothing is decided here.
"""

import math
from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Protocol

import numpy as np

from scheduler.core.model.changes import Changes, Grant, grants_of
from scheduler.core.model.plan import WaitReason
from scheduler.core.model.profile import Profile, packed, speed
from scheduler.core.model.tables import DEFAULT_ROUND_S, NO_ROW, Placements
from scheduler.simulator.jobs import UNKNOWN, SimJob
from scheduler.simulator.state.columns import Columns, cells
from scheduler.simulator.state.held_jobs import held_jobs
from scheduler.simulator.state.tally import Tally


class Costs(Protocol):
    """Cost of starting, stopping and resizing jobs."""

    def pause_s(self, *, first: bool, before_gpus: int, num_gpus: int) -> float:
        """Return for how long a job that begins on new seats makes no progress, seconds.

        Args:
            first: Whether it never ran before.
            before_gpus: GPUs on which it trains meanwhile; 0 when it waited, or was stopped and goes on elsewhere.
            num_gpus: GPUs that it begins on.
        """


class Retries(Protocol):
    """Rule for a job after a failed attempt."""

    def retry_after_s(self, job: SimJob, failed_attempts: int) -> float | None:
        """Return how long it waits before it joins the line again, seconds; None when it is not tried again."""


class World:
    """State of a replay.

    Attributes:
        columns: The jobs.
        now_s: The present.
        seats: What each running job holds, by row.
        round_s: Seconds between rounds, as of a ``Snapshot``.
        arrived: Rows that joined the line since they were last taken from here.
        released: Rows that left their seats by ending or failing since they were last taken from here.
    """

    def __init__(
        self,
        jobs: Sequence[SimJob],
        *,
        tally: Tally,
        columns: Columns,
        restart_s: float = 0.0,
        resume_s: float | None = None,
        leave_s: float = 0.0,
        checkpoint_s: float = math.inf,
        costs: Costs | None = None,
        retries: Retries | None = None,
        round_s: float | None = None,
    ) -> None:
        """Begin before the first arrival."""
        self.round_s = DEFAULT_ROUND_S if round_s is None else round_s
        self._jobs = jobs
        self._tally = tally if tally.notes else None
        self._restart_s, self._resume_s, self._checkpoint_s = restart_s, resume_s, checkpoint_s
        self._leave_s = leave_s
        self._costs, self._retries = costs, retries
        self.columns = columns
        self.now_s = float(columns.arrival_s.min(initial=math.inf))
        self.seats: dict[int, Grant] = {}
        # Which jobs share GPUs, both ways; and where a suspended job may resume quickly.
        self._partner: dict[int, int] = {}
        self._left: dict[int, tuple[int, ...]] = {}
        self._lent: frozenset[int] = frozenset()
        self.arrived: list[int] = []
        self.released: list[int] = []
        # Jobs still to arrive, last first, and jobs that join the line later: see ``to_join``.
        self._to_come: list[int] = np.lexsort((np.arange(len(jobs)), columns.arrival_s))[::-1].tolist()
        self._to_join: list[tuple[float, int]] = []
        self._held = held_jobs(jobs)
        self._ends: list[tuple[float, int]] = []
        self._arrival_s: list[float] = columns.arrival_s.tolist()
        self._profile: list[int] = columns.profile.tolist()
        self._next_s, self._first_start_s = cells(columns.next_s), cells(columns.first_start_s)
        self._attempts, self._fail_after_s = cells(columns.attempts), cells(columns.fail_after_s)
        self._work_s, self._end_s, self._waited_s = (
            cells(column) for column in (columns.work_s, columns.end_s, columns.waited_s)
        )
        self._arrived, self._ended = cells(columns.arrived), cells(columns.ended)
        self._joined_active_s, self._left_active_s = cells(columns.joined_active_s), cells(columns.left_active_s)
        # By what a job is and asks for, and by what it holds: its speed.
        self._kind = [*zip(self._profile, columns.num_gpus.tolist(), strict=True)]
        self._speeds: dict[tuple[int, int], dict[tuple[int, float, float, int], float]] = {
            kind: {} for kind in set(self._kind)
        }

    @property
    def to_join(self) -> list[tuple[float, int]]:
        """Return when jobs that have come join the line: after a failure, or freed by a dependency or array limit."""
        return self._to_join

    def restore(
        self,
        now_s: float,
        held: Placements,
        to_join: list[tuple[float, int]],
        *,
        later: Sequence[tuple[float, int]] = (),
    ) -> None:
        """Take up a state whose columns are restored already.

        ``later`` are jobs that have come, and join the line at a known time for which nothing in the replay stands.
        """
        columns = self.columns
        self.now_s, self._to_join = now_s, [*to_join, *later]
        heapify(self._to_join)
        joined = columns.arrived | columns.ended | (columns.attempts > 0)
        for _, row in later:
            joined[row] = True
            self._joined_active_s[row] = columns.count(now_s, 1)
            if self._tally:
                self._tally.held(row, WaitReason.ARRAY_LIMIT, now_s)
        self._to_come = [row for row in self._to_come if not joined[row]]
        if self._held:
            self._held.restore(
                ended=np.flatnonzero(columns.ended).tolist(), joined=np.flatnonzero(joined & ~columns.ended).tolist()
            )
            self._take_up_held()
        running = np.flatnonzero(columns.held_gpus > 0).tolist()
        self._ends = [(float(columns.next_s[row]), row) for row in running]
        heapify(self._ends)
        self.seats = grants_of(held)
        self.arrived = [row for row in columns.active.tolist() if row not in self.seats]
        self._lent = frozenset(np.flatnonzero(columns.lent).tolist())

    def _take_up_held(self) -> None:
        """Put the jobs that have come and may not join the line outside it again."""
        come = [row for row in self._to_come if self._arrival_s[row] <= self.now_s]
        self._to_come = self._to_come[: len(self._to_come) - len(come)]
        for row in reversed(come):
            if not self._hold(row, self.now_s):
                self._joined_active_s[row] = self.columns.count(self.now_s, 1)
                heappush(self._to_join, (self.now_s, row))

    def next_arrival_s(self) -> float:
        """Return when the next job joins the line, +inf for never."""
        first_s = self._arrival_s[self._to_come[-1]] if self._to_come else math.inf
        return min(first_s, self._to_join[0][0]) if self._to_join else first_s

    def next_end_s(self) -> float:
        """Return when the next running job ends or fails if nothing changes, +inf when none runs."""
        ends, next_s = self._ends, self._next_s
        while ends and next_s[ends[0][1]] != ends[0][0]:
            heappop(ends)
        return ends[0][0] if ends else math.inf

    def advance(self, to_s: float) -> None:
        """Let time pass: jobs arrive, fail and end, those of this very moment included."""
        arrival_s, end_s = self.next_arrival_s(), self.next_end_s()
        while arrival_s <= to_s or end_s <= to_s:
            if end_s <= arrival_s:
                self._stop_by_itself(heappop(self._ends)[1], end_s)
                end_s = self.next_end_s()
                if not self._to_join:
                    continue
            else:
                self._arrive(arrival_s)
            arrival_s = self.next_arrival_s()
        self.now_s = to_s

    def _arrive(self, at_s: float) -> None:
        columns = self.columns
        if self._to_join and self._to_join[0][0] <= at_s:
            row = heappop(self._to_join)[1]
            columns.settle(row, at_s)
        else:
            row = self._to_come.pop()
            if self._held and self._hold(row, at_s):
                return
            self._joined_active_s[row] = columns.count(at_s, 1)
        self._arrived[row] = True
        self.arrived.append(row)
        if self._tally:
            self._tally.arrived(row, at_s)

    def _hold(self, row: int, at_s: float) -> bool:
        """Keep a job that has come outside the line if it may not join; return whether."""
        reason = self._held.arrive(row) if self._held else None
        if reason is None:
            return False
        if self._tally:
            self._tally.held(row, reason, at_s)
        return True

    def _let_in(self, ended: int, at_s: float) -> None:
        """Let the jobs join the line that waited for this job to end."""
        assert self._held is not None
        joining, at_door = self._held.end(ended)
        for row in joining:
            self._joined_active_s[row] = self.columns.count(at_s, 1)
            heappush(self._to_join, (at_s, row))
        if self._tally:
            for row in at_door:
                self._tally.held(row, WaitReason.ARRAY_LIMIT, at_s)

    def _stop_by_itself(self, row: int, at_s: float) -> None:
        """Take a job off its seats whose work is done or whose attempt failed."""
        columns = self.columns
        columns.settle(row, at_s)
        self._attempts[row] += 1
        if self._tally:
            self._tally.left(row, self.seats[row], at_s)
            self._tally.gone(row, at_s)
        del self.seats[row]
        self.released.append(row)
        if row in self._partner:
            self._part(row, at_s)
        if self._fail_after_s[row] <= 1e-9 and self._work_s[row] > 1e-9:
            self._fail(row, at_s)
        else:
            self._work_s[row] = 0.0
            self._end_s[row] = at_s
            self._leave(row, at_s)
        columns.rise(row)
        self._waited_s[row] = 0.0

    def _part(self, row: int, at_s: float) -> None:
        """Leave the GPUs that a job shared to the other one."""
        other = self._partner.pop(row)
        del self._partner[other]
        if self._tally:
            self._tally.shares(other, self.seats[other], at_s, is_guest=False)
        self.columns.settle(other, at_s)
        self._set_rate(other, self.seats[other], at_s)

    def _pair(self, riding: Mapping[int, int]) -> None:
        """Let guests share the GPUs of their hosts from now on, and end all other pairs."""
        before, now_s = self._partner, self.now_s
        self._partner = {**riding, **{host: guest for guest, host in riding.items()}}
        for row in sorted(before.keys() | self._partner.keys()):
            if before.get(row) == self._partner.get(row) or row not in self.seats:
                continue
            if self._tally:
                self._tally.shares(row, self.seats[row], now_s, is_guest=row in riding)
            self.columns.settle(row, now_s)
            self._set_rate(row, self.seats[row], now_s)

    def _leave(self, row: int, at_s: float) -> None:
        self._ended[row] = True
        self._left_active_s[row] = self.columns.count(at_s, -1)
        if self._held:
            self._let_in(row, at_s)

    def _fail(self, row: int, at_s: float) -> None:
        columns, job = self.columns, self._jobs[row]
        lost_s = math.fmod(columns.unsaved_s[row], self._checkpoint_s) * columns.rate[row]
        columns.work_s[row] += lost_s
        columns.lost_s[row] += lost_s
        failed = int(columns.attempts[row])
        columns.fail_after_s[row] = job.failures[failed].after_s if failed < len(job.failures) else math.inf
        wait_s = self._retries.retry_after_s(job, failed) if self._retries else 0.0
        if wait_s is None:
            self._leave(row, at_s)
        else:
            columns.arrived[row] = False
            heappush(self._to_join, (at_s + wait_s, row))

    def carry_out(self, changes: Changes) -> None:
        """Make the changes true at once."""
        columns, now_s, tally, held = self.columns, self.now_s, self._tally, self.seats
        before: dict[int, Grant] = {}
        leaving = {seat[0] for row in changes.stopped for seat in held[row]} if self._leave_s else set()
        for row in changes.stopped:
            before[row] = seats = held.pop(row)
            columns.preempt(row, now_s)
            if tally:
                tally.left(row, seats, now_s)
            if self._resume_s is not None:
                self._left[row] = tuple(seat[0] for seat in seats)
        for row, seats in changes.started.items():
            if row in held:  # it goes on with another number of GPUs
                before[row] = held[row]
                columns.settle(row, now_s)
                if tally:
                    tally.left(row, held[row], now_s)
            elif row in changes.stopped:  # it was only moved
                columns.moves[row] += 1
            waits_s = 0.0
            if leaving and (row in changes.stopped or not leaving.isdisjoint(seat[0] for seat in seats)):
                waits_s = self._leave_s
            self._start(
                row,
                seats,
                before_gpus=sum(seat[1] for seat in before[row]) if row in before else 0,
                stopped=row in changes.stopped,
                waits_s=waits_s,
            )
        for row, seats in changes.amended.items():
            columns.settle(row, now_s)
            self.seats[row] = seats
            self._set_rate(row, seats, now_s)
        if changes.riding is not None:
            self._pair(changes.riding)

    def lend(self, rows: frozenset[int]) -> None:
        """Note which jobs run on GPUs lent to them from now on."""
        if rows != self._lent:
            self.columns.lent[:] = False
            self.columns.lent[list(rows)] = True
            self._lent = rows

    def _start(self, row: int, seats: Grant, *, before_gpus: int, stopped: bool, waits_s: float) -> None:
        columns, now_s = self.columns, self.now_s
        columns.settle(row, now_s)
        first = self._first_start_s[row] == math.inf
        pause_s = 0.0 if first else self._restart_s
        if self._resume_s is not None and self._left.pop(row, ()) == tuple(seat[0] for seat in seats):
            pause_s = self._resume_s
        if self._costs is not None or before_gpus:
            gpus = sum(seat[1] for seat in seats)
            if self._costs is not None:
                # A moved job starts its workers anew, as one that waited: no old ones train meanwhile.
                goes_on_gpus = 0 if stopped else before_gpus
                pause_s = self._costs.pause_s(first=first, before_gpus=goes_on_gpus, num_gpus=gpus)
            if before_gpus and before_gpus != gpus:
                columns.reconfigurations[row] += 1
        if first:
            self._first_start_s[row] = now_s
        columns.sit(row, now_s, now_s + waits_s + pause_s)
        self.seats[row] = seats
        if self._tally:
            self._tally.sat(row, seats, now_s)
        self._set_rate(row, seats, now_s)

    def _set_rate(self, row: int, seats: Grant, at_s: float) -> None:
        gpus, rate = self.speed_of(row, seats)
        if row in self._partner:
            rate *= packed(self._profile_of(row), self._profile_of(self._partner[row]))
        if self._tally:
            self._tally.rate(row, gpus, rate, at_s)
        next_s = self.columns.set_rate(row, gpus=float(gpus), rate=rate)
        if next_s < math.inf:
            heappush(self._ends, (next_s, row))

    def speed_of(self, row: int, seats: Grant) -> tuple[int, float]:
        """Return the GPUs of the seats and the speed of the job on them."""
        if len(seats) == 1:
            _, gpus, cpus, memory = seats[0]
        else:
            gpus, cpus, memory = (sum(seat[i] for seat in seats) for i in (1, 2, 3))  # type: ignore[assignment]  # ints stay ints
        kind, held = self._kind[row], (gpus, cpus, memory, len(seats))
        rate = self._speeds[kind].get(held)
        if rate is None:
            rate = self._speeds[kind][held] = speed(
                self._profile_of(row),
                asked_gpus=kind[1],
                num_gpus=gpus,
                cpus=cpus,
                memory_bytes=memory,
                num_servers=len(seats),
            )
        return gpus, rate

    def _profile_of(self, row: int) -> Profile:
        number = self._profile[row]
        return UNKNOWN if number == NO_ROW else self.columns.profiles[number]
