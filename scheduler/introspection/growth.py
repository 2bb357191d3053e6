"""Grow-shrink: jobs that can use more GPUs get idle ones while no other job wants them."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from scheduler.core.model.plan import Plan, Waiting
from scheduler.core.model.queue_tree import queue_tree, subtree_sums
from scheduler.core.model.tables import NO_ROW, Snapshot
from scheduler.core.model.trial import Trial, TrialKind, Verdict, busy_servers
from scheduler.core.packing.draft import Seats
from scheduler.core.packing.kept_placements import seats_by_job
from scheduler.core.round.config import Scene, SharePolicy
from scheduler.core.round.introspection_loop import SHORT_OF_ROOM, free_gpus, rows_by_id, with_seats


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """A job that declares more GPUs than it asks for is doubled on a server whose GPUs were idle for a while.

    It keeps them when its speed grew enough, and gives them back, newest growth first, as soon as a job waits for room.
    Policies that choose shares do this themselves: under those nothing is done.

    Source: Xiao et al., "Gandiva", OSDI 2018, grow-shrink. The times and the least gain are ours.
    """

    name: ClassVar[str] = "growth"

    idle_s: float = field(
        default=300.0,
        metadata={"help": "How long GPUs are idle before a job may grow into them.", "minimum": 0.0},
    )
    measure_s: float = field(default=120.0, metadata={"help": "How long a grown job is measured.", "minimum": 1.0})
    least_gain: float = field(
        default=1.2, metadata={"help": "Speed over that before, from which growth is kept.", "minimum": 1.0}
    )
    backoff_s: float = field(
        default=1800.0,
        metadata={"help": "How long a job that gained too little does not grow again.", "minimum": 0.0},
    )

    def prepare(self, scene: Scene) -> Scene:
        """Let grown jobs ask for what they have, and shrink those that gained too little."""
        if isinstance(scene.config.policy, SharePolicy):
            return scene
        row_of, now_s, jobs = rows_by_id(scene.snapshot), scene.snapshot.now_s, scene.snapshot.jobs
        seats = seats_by_job(scene.snapshot.held)
        trials: list[Trial] = []
        sizes: dict[int, int] = {}
        for trial in scene.trials:
            if trial.kind is not TrialKind.GROW:
                trials.append(trial)
                continue
            row = row_of.get(trial.jobs[0], NO_ROW)
            held = sum(gpus for _, gpus in seats.get(row, ()))
            is_grown = row != NO_ROW and jobs.num_gpus[row] < held <= jobs.max_gpus[row]
            if trial.verdict is Verdict.UNDONE and now_s >= trial.until_s:
                trial = replace(trial, verdict=Verdict.KEPT, until_s=math.inf)
            if is_grown:
                sizes[row] = held
                if trial.verdict is Verdict.TRYING and now_s >= trial.until_s - 1e-6:
                    trial = self._judged(trial, float(jobs.rate[row]), now_s)
                    sizes[row] = int(trial.values[1]) if trial.verdict is Verdict.UNDONE else held
            if is_grown or trial.verdict is Verdict.UNDONE:
                trials.append(trial)
        return replace(scene, snapshot=_sized(scene.snapshot, sizes), trials=tuple(trials))

    def _judged(self, trial: Trial, rate: float, now_s: float) -> Trial:
        if rate >= self.least_gain * trial.values[0]:  # a speed that is not known is no gain
            return replace(trial, verdict=Verdict.KEPT, until_s=math.inf)
        return replace(trial, verdict=Verdict.UNDONE, until_s=now_s + self.backoff_s)

    def propose(self, scene: Scene, plan: Plan) -> Scene:
        """Shrink while a job waits for room, grow where GPUs were idle for long enough."""
        if isinstance(scene.config.policy, SharePolicy):
            return scene
        waits = [entry for entry in plan.waiting if entry.reason in SHORT_OF_ROOM]
        idle = next((trial for trial in scene.trials if trial.kind is TrialKind.IDLE), None)
        trials = tuple(trial for trial in scene.trials if trial is not idle)
        if waits:
            return _shrunk(replace(scene, trials=trials), plan, waits[0])
        idle = _idle(scene, plan, idle)
        scene = self._grown(replace(scene, trials=(*trials, idle)), plan, idle)
        due_s = [t.until_s for t in scene.trials if t.kind is TrialKind.GROW and t.verdict is Verdict.TRYING]
        later_s = [since_s + self.idle_s for since_s in idle.values if since_s + self.idle_s > scene.snapshot.now_s]
        return replace(scene, again_at_s=min(scene.again_at_s, *due_s, *later_s, math.inf))

    def _grown(self, scene: Scene, plan: Plan, idle: Trial) -> Scene:
        snapshot, jobs = scene.snapshot, scene.snapshot.jobs
        free = free_gpus(snapshot, plan.grants, plan.riding)
        row_of = {server: row for row, server in enumerate(snapshot.servers.server_id.tolist())}
        busy = busy_servers(scene.trials)
        known = {trial.jobs[0]: trial for trial in scene.trials if trial.kind is TrialKind.GROW}
        seats = seats_by_job(plan.grants)
        may_hold = _queue_room(snapshot, plan)
        trials, sizes = list(scene.trials), {}
        for server, since_s in zip(idle.servers, idle.values, strict=True):
            row = _job_to_grow(scene, plan, row_of[server], known)
            if snapshot.now_s < since_s + self.idle_s - 1e-6 or server in busy or row == NO_ROW:
                continue
            before = seats[row][0][1]
            size = min(2 * before, int(jobs.max_gpus[row]), before + free[row_of[server]])
            if not may_hold(row, size - before):
                continue
            sizes[row] = size
            job = int(jobs.job_id[row])
            asked = {job: known[job].values[2]} if job in known else {}
            trials = [t for t in trials if not (t.kind is TrialKind.GROW and t.jobs == (job,))]
            trials.append(
                Trial(
                    kind=TrialKind.GROW,
                    jobs=(job,),
                    servers=(server,),
                    values=(float(jobs.rate[row]), float(before), asked.get(job, float(before))),
                    began_s=snapshot.now_s,
                    until_s=snapshot.now_s + self.measure_s,
                    verdict=Verdict.TRYING,
                )
            )
        return replace(scene, snapshot=_sized(snapshot, sizes), trials=tuple(trials))


def _sized(snapshot: Snapshot, sizes: Mapping[int, int]) -> Snapshot:
    """Return the snapshot in which these jobs, each on one server, have and ask for so many GPUs."""
    if not sizes:
        return snapshot
    jobs, before = snapshot.jobs, seats_by_job(snapshot.held)
    num_gpus = jobs.num_gpus.copy()
    num_gpus[list(sizes)] = list(sizes.values())
    by = num_gpus / jobs.num_gpus
    jobs = replace(
        jobs,
        num_gpus=num_gpus,
        demand_cpus=jobs.demand_cpus * by,
        demand_memory_bytes=jobs.demand_memory_bytes * by,
    )
    seats: dict[int, Seats] = {row: ((before[row][0][0], size),) for row, size in sizes.items()}
    other = {row: at for row, at in seats.items() if at != before[row]}
    snapshot = replace(snapshot, jobs=jobs)
    return with_seats(snapshot, other) if other else snapshot


def _idle(scene: Scene, plan: Plan, before: Trial | None) -> Trial:
    """Return since when each server has GPUs that no job wants."""
    now_s = scene.snapshot.now_s
    since = dict(zip(before.servers, before.values, strict=True)) if before else {}
    free = free_gpus(scene.snapshot, plan.grants, plan.riding)
    servers = [server for server, gpus in zip(scene.snapshot.servers.server_id.tolist(), free, strict=True) if gpus > 0]
    return Trial(
        kind=TrialKind.IDLE,
        servers=tuple(servers),
        values=tuple(since.get(server, now_s) for server in servers),
        began_s=now_s,
        until_s=math.inf,
    )


def _job_to_grow(scene: Scene, plan: Plan, server: int, known: Mapping[int, Trial]) -> int:
    """Return the job on the server that may use more GPUs, the one that came first; NO_ROW for none."""
    jobs = scene.snapshot.jobs
    shares = {*plan.riding, *plan.riding.values()}
    rests = {job for job, trial in known.items() if trial.verdict is not Verdict.KEPT}
    servers = np.bincount(plan.grants.job, minlength=len(jobs))
    here = set(plan.grants.job[plan.grants.server == server].tolist()) & plan.kept - shares
    rows = [
        row
        for row in here
        if servers[row] == 1
        and jobs.max_gpus[row] > jobs.num_gpus[row]
        and jobs.rate[row] > 0
        and int(jobs.job_id[row]) not in rests
    ]
    return min(rows, key=lambda row: (jobs.arrival_s[row], jobs.job_id[row]), default=NO_ROW)


def _queue_room(snapshot: Snapshot, plan: Plan) -> Callable[[int, int], bool]:
    """Return whether the queues of a job let it hold so many GPUs more; a yes counts from then on."""
    jobs, tree = snapshot.jobs, queue_tree(snapshot.queues)
    own = np.where(np.isin(plan.grants.job, list(plan.riding)), 0, plan.grants.num_gpus)
    held = subtree_sums(tree, jobs.queue[plan.grants.job], own).tolist()

    def may_hold(row: int, more: int) -> bool:
        path = tree.paths[int(jobs.queue[row])]
        if any(held[queue] + more > tree.cap[queue] for queue in path):
            return False
        for queue in path:
            held[queue] += more
        return True

    return may_hold


def _shrunk(scene: Scene, plan: Plan, first: Waiting) -> Scene:
    """Halve grown jobs, the newest first and never below what they asked for, until the first in line fits."""
    snapshot = scene.snapshot
    row_of, seats = rows_by_id(snapshot), seats_by_job(plan.grants)
    free = free_gpus(snapshot, plan.grants, plan.riding)
    needed, widest = int(snapshot.jobs.num_gpus[first.job]), int(snapshot.servers.num_gpus.max(initial=0))
    grown = [t for t in scene.trials if t.kind is TrialKind.GROW and row_of.get(t.jobs[0], NO_ROW) in plan.kept]
    sizes: dict[int, int] = {}
    for trial in sorted(grown, key=lambda trial: (-trial.began_s, trial.jobs)):
        row = row_of[trial.jobs[0]]
        (server, size), asked = seats[row][0], int(trial.values[2])
        while size > asked and not _has_room(free, needed, widest):
            smaller = max(asked, size // 2)
            free[server] += size - smaller
            size = sizes[row] = smaller
    if not sizes or not _has_room(free, needed, widest):
        return scene
    gone = {int(snapshot.jobs.job_id[row]) for row in sizes}
    kept = [replace(t, verdict=Verdict.KEPT, until_s=math.inf) if t.jobs[0] in gone else t for t in grown]
    trials = tuple(trial for trial in scene.trials if trial not in grown)
    return replace(
        scene,
        snapshot=_sized(snapshot, sizes),
        must_run=scene.must_run | {first.job},
        trials=(*trials, *kept),
    )


def _has_room(free: Sequence[int], needed: int, widest: int) -> bool:
    return max(free, default=0) >= needed if needed <= widest else sum(free) >= needed
