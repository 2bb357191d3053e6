"""Migration: move running jobs so that a gang fits, or onto one server; undo moves that made a job slower."""

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar

from scheduler.core.model.barred import barred_rows
from scheduler.core.model.plan import Plan, WaitReason
from scheduler.core.model.tables import NO_ROW
from scheduler.core.model.trial import Trial, TrialKind, Verdict, busy_servers
from scheduler.core.packing.draft import Seats
from scheduler.core.packing.kept_placements import seats_by_job
from scheduler.core.round.config import Scene
from scheduler.core.round.introspection_loop import free_gpus, rows_by_id, with_seats

# Servers that a round looks at for one gang.
_MOST_TARGETS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """Running jobs move aside for a gang that free GPUs of several servers would hold, and scattered gangs together.

    A gang is worth it when its GPU time over the horizon is more than the moves cost. A move that let no gang in and
    left the job slower than before is taken back as soon as its old seats are free.

    Source: Xiao et al., "Gandiva", OSDI 2018, migration and defragmentation. Differs: moves are made for a gang that
    waits or for the job itself, not to empty servers in advance.
    """

    name: ClassVar[str] = "migration"

    move_s: float = field(default=35.0, metadata={"help": "What a move is taken to cost a job.", "minimum": 0.0})
    horizon_s: float = field(default=600.0, metadata={"help": "Time over which a move has to pay.", "minimum": 1.0})
    measure_s: float = field(default=120.0, metadata={"help": "How long a move is measured.", "minimum": 1.0})
    least_rate: float = field(
        default=0.97,
        metadata={"help": "Share of its speed before that a moved job must keep.", "minimum": 0.0, "maximum": 1.0},
    )
    backoff_s: float = field(
        default=1800.0,
        metadata={"help": "How long a job stays after a move that was taken back.", "minimum": 0.0},
    )

    def prepare(self, scene: Scene) -> Scene:
        """Take back moves that made a job slower."""
        row_of, now_s = rows_by_id(scene.snapshot), scene.snapshot.now_s
        seats = seats_by_job(scene.snapshot.held)
        free = free_gpus(scene.snapshot, scene.snapshot.held, scene.riding)
        trials: list[Trial] = []
        back: dict[int, Seats] = {}
        for trial in scene.trials:
            row = row_of.get(trial.jobs[0], NO_ROW) if trial.kind is TrialKind.MOVE else NO_ROW
            if trial.kind is not TrialKind.MOVE or (trial.verdict is Verdict.UNDONE and now_s < trial.until_s):
                trials.append(trial)
            elif trial.verdict is Verdict.TRYING and _place(scene, seats.get(row, ())) == trial.servers[:1]:
                if now_s < trial.until_s - 1e-6:
                    trials.append(trial)
                    continue
                before, slower = _from(scene, trial), scene.snapshot.jobs.rate[row] < self.least_rate * trial.values[0]
                if len(trial.jobs) > 1 or not slower or not before:
                    continue
                if any(free[server] < gpus for server, gpus in before):
                    trials.append(replace(trial, until_s=now_s + self.measure_s))
                    continue
                back[row] = before
                for sign, at in ((-1, before), (1, seats[row])):
                    for server, gpus in at:
                        free[server] += sign * gpus
                trials.append(replace(trial, verdict=Verdict.UNDONE, until_s=now_s + self.backoff_s))
        snapshot = with_seats(scene.snapshot, back) if back else scene.snapshot
        return replace(scene, snapshot=snapshot, trials=tuple(trials))

    def propose(self, scene: Scene, plan: Plan) -> Scene:
        """Make room for the first gang that is kept out by scattered GPUs, or bring one scattered gang together."""
        scattered = [entry.job for entry in plan.waiting if entry.reason is WaitReason.FRAGMENTATION]
        movable = _movable(scene, plan)
        moves, gang = (self._room_for(scene, plan, scattered[0], movable), scattered[0]) if scattered else ({}, NO_ROW)
        if not moves and not plan.waiting:
            moves, gang = self._together(scene, plan, movable), NO_ROW
        if moves:
            scene = self._moved(scene, plan, moves, gang)
        due_s = [t.until_s for t in scene.trials if t.kind is TrialKind.MOVE and t.verdict is Verdict.TRYING]
        return replace(scene, again_at_s=min(scene.again_at_s, min(due_s, default=math.inf)))

    def _room_for(self, scene: Scene, plan: Plan, gang: int, movable: dict[int, Seats]) -> dict[int, Seats]:
        """Return moves after which one server has room for the gang; none when they do not pay."""
        needed = int(scene.snapshot.jobs.num_gpus[gang])
        free = free_gpus(scene.snapshot, plan.grants, plan.riding)
        gpus: list[int] = scene.snapshot.servers.num_gpus.tolist()
        targets = [server for server in range(len(free)) if gpus[server] >= needed]
        targets.sort(key=lambda server: (-free[server], server))
        for target in targets[:_MOST_TARGETS]:
            here = [(at[0][1], row) for row, at in movable.items() if len(at) == 1 and at[0][0] == target]
            moves = _spread_over(free, target, _fewest(sorted(here), needed - free[target]))
            if moves and sum(at[0][1] for at in moves.values()) * self.move_s < needed * self.horizon_s:
                return moves
        return {}

    def _together(self, scene: Scene, plan: Plan, movable: dict[int, Seats]) -> dict[int, Seats]:
        """Return the move of one gang from several servers to one that has room for it."""
        free = free_gpus(scene.snapshot, plan.grants, plan.riding)
        jobs = scene.snapshot.jobs
        for row, at in movable.items():
            size = int(jobs.num_gpus[row])
            if len(at) == 1 or jobs.remaining_s[row] <= self.horizon_s:
                continue
            target = min((s for s in range(len(free)) if free[s] >= size), key=lambda s: (free[s], s), default=NO_ROW)
            if target != NO_ROW:
                return {row: ((target, size),)}
        return {}

    def _moved(self, scene: Scene, plan: Plan, moves: dict[int, Seats], gang: int) -> Scene:
        snapshot = scene.snapshot
        jobs, server_id = snapshot.jobs, snapshot.servers.server_id.tolist()
        seats = seats_by_job(plan.grants)
        ids = [int(jobs.job_id[gang])] if gang != NO_ROW else []
        trials = [
            Trial(
                kind=TrialKind.MOVE,
                jobs=(int(jobs.job_id[row]), *ids),
                servers=(server_id[at[0][0]], *(server_id[server] for server, _ in seats[row])),
                values=(float(jobs.rate[row]), *(float(gpus) for _, gpus in seats[row])),
                began_s=snapshot.now_s,
                until_s=snapshot.now_s + self.measure_s,
                verdict=Verdict.TRYING,
            )
            for row, at in moves.items()
        ]
        return replace(
            scene,
            snapshot=with_seats(snapshot, moves),
            must_run=scene.must_run | ({gang} if ids else set()),
            trials=(*scene.trials, *trials),
        )


def _place(scene: Scene, seats: Seats) -> tuple[int, ...]:
    return tuple(int(scene.snapshot.servers.server_id[server]) for server, _ in seats)


def _from(scene: Scene, trial: Trial) -> Seats:
    """Return the seats before the move; none when one of the servers is gone."""
    row_of = {server: row for row, server in enumerate(scene.snapshot.servers.server_id.tolist())}
    seats = zip(trial.servers[1:], trial.values[1:], strict=True)
    found = [(row_of.get(server, NO_ROW), int(gpus)) for server, gpus in seats]
    return () if any(server == NO_ROW for server, _ in found) else tuple(sorted(found))


def _movable(scene: Scene, plan: Plan) -> dict[int, Seats]:
    """Return the running jobs that may be moved, with their seats: alone on their GPUs and not measured now."""
    jobs, busy = scene.snapshot.jobs, busy_servers(scene.trials)
    rests = {trial.jobs[0] for trial in scene.trials if trial.kind is TrialKind.MOVE}
    shares = {*plan.riding, *plan.riding.values()}
    seats = seats_by_job(plan.grants)
    barred = barred_rows(scene.snapshot)
    return {
        row: seats[row]
        for row in sorted(plan.kept)
        if jobs.preemptible[row]
        and jobs.rate[row] > 0
        and row not in shares
        and row not in barred
        and int(jobs.job_id[row]) not in rests
        and not busy & set(_place(scene, seats[row]))
    }


def _fewest(here: list[tuple[int, int]], missing: int) -> list[tuple[int, int]]:
    """Return (GPUs, row) of jobs that leave the missing GPUs: one if one is enough, else the widest first."""
    for gpus, row in here:
        if gpus >= missing:
            return [(gpus, row)]
    chosen: list[tuple[int, int]] = []
    for gpus, row in reversed(here):
        if missing <= 0:
            break
        chosen.append((gpus, row))
        missing -= gpus
    return chosen if missing <= 0 else []


def _spread_over(free: list[int], target: int, leaving: list[tuple[int, int]]) -> dict[int, Seats]:
    """Return seats for jobs that leave a server, on those with the fewest free GPUs; none if one finds no place."""
    left = list(free)
    moves: dict[int, Seats] = {}
    for gpus, row in sorted(leaving, reverse=True):
        others = (server for server, count in enumerate(left) if server != target and count >= gpus)
        server = min(others, key=lambda other: (left[other], other), default=NO_ROW)
        if server == NO_ROW:
            return {}
        left[server] -= gpus
        moves[row] = ((server, gpus),)
    return moves
