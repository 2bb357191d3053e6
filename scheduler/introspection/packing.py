"""Packing: under overload two jobs share the same GPUs where that measures faster than taking turns."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from scheduler.core.model.plan import Plan
from scheduler.core.model.tables import NO_ROW, Snapshot
from scheduler.core.model.trial import Trial, TrialKind, Verdict, busy_servers
from scheduler.core.packing.kept_placements import seats_by_job
from scheduler.core.round.config import Scene
from scheduler.core.round.introspection_loop import SHORT_OF_ROOM, free_gpus, rows_by_id, without_seats
from scheduler.introspection.pairs import bound_together, fits, is_in_force, is_whole, least_busy_first


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """Two jobs of the same size share their GPUs when some wait: a host that has GPUs and a guest that has none.

    Both must have been measured alone before. The pair that keeps its GPUs least busy is tried first, and kept when
    the two speeds, each as a share of that job's speed alone, add up to more than the 1 that taking turns would give.
    A pair that measures worse is taken apart and not tried again for a while. When no job waits any more, guests get
    GPUs of their own.

    Source: Xiao et al., "Gandiva", OSDI 2018, packing. Differs: the gain must exceed 1 by a margin; memory of GPUs is
    not looked at before the trial, a pair that does not fit measures 0.
    """

    name: ClassVar[str] = "packing"

    look_s: float = field(default=60.0, metadata={"help": "Time between two looks for new pairs.", "minimum": 1.0})
    trial_s: float = field(default=120.0, metadata={"help": "How long a new pair is measured.", "minimum": 1.0})
    least_gain: float = field(
        default=1.05,
        metadata={"help": "Sum of both speeds, relative to alone, from which a pair is kept.", "minimum": 1.0},
    )
    check_s: float = field(
        default=300.0, metadata={"help": "Time between two looks at a pair that is kept.", "minimum": 1.0}
    )
    forget_s: float = field(
        default=3600.0, metadata={"help": "How long a pair that was worse is not tried again.", "minimum": 0.0}
    )

    def prepare(self, scene: Scene) -> Scene:
        """Measure the pairs that are due, take apart the worse ones, and keep what is known of speeds alone."""
        row_of, now_s = rows_by_id(scene.snapshot), scene.snapshot.now_s
        trials: list[Trial] = []
        riding: dict[int, int] = {}
        apart: list[int] = []
        for trial in scene.trials:
            if trial.kind is TrialKind.ALONE:
                continue
            if trial.kind is not TrialKind.PACK:
                trials.append(trial)
                continue
            host, guest = (row_of.get(job, NO_ROW) for job in trial.jobs)
            if trial.verdict is Verdict.UNDONE:
                trials += [trial] if now_s < trial.until_s and NO_ROW not in (host, guest) else []
                continue
            if not is_whole(scene.snapshot, host, guest):
                continue  # one has ended, or they were torn apart
            judged = self._judged(trial, scene.snapshot, host, guest)
            trials.append(judged)
            if is_in_force(judged):
                riding[guest] = host
            elif scene.snapshot.jobs.running[guest]:
                apart.append(guest)
        trials.append(_alone(scene, riding, apart))
        snapshot = without_seats(scene.snapshot, np.array(apart, dtype=np.int64)) if apart else scene.snapshot
        snapshot = bound_together(snapshot, riding, trials)
        return replace(scene, snapshot=snapshot, riding={**scene.riding, **riding}, trials=tuple(trials))

    def _judged(self, trial: Trial, snapshot: Snapshot, host: int, guest: int) -> Trial:
        """Return the trial after a look at the two jobs, if it is time for one and both run."""
        jobs, now_s = snapshot.jobs, snapshot.now_s
        if now_s < trial.until_s - 1e-6 or not jobs.running[guest]:
            return trial
        unknown = [row for row in (host, guest) if math.isnan(jobs.rate[row])]
        told_by_s = max((float(jobs.held_at_s[row]) for row in unknown), default=-math.inf) + self.trial_s
        if now_s < told_by_s - 1e-6:  # the pair has just got its GPUs, and not said yet how fast it is there
            return replace(trial, until_s=min(now_s + self.look_s, told_by_s))
        gain = sum(float(jobs.rate[row]) / alone for row, alone in zip((host, guest), trial.values, strict=True))
        if gain > self.least_gain:  # a speed that is not known is no gain
            return replace(trial, verdict=Verdict.KEPT, until_s=now_s + self.check_s)
        return replace(trial, verdict=Verdict.UNDONE, until_s=now_s + self.forget_s)

    def propose(self, scene: Scene, plan: Plan) -> Scene:
        """Try new pairs while jobs wait for room; give guests their own GPUs when none does."""
        waits = [entry.job for entry in plan.waiting if entry.reason in SHORT_OF_ROOM and entry.job not in scene.riding]
        if waits:
            scene = self._looked(scene, plan, waits)
        elif plan.riding:
            scene = _released(scene, plan)
        due_s = min((trial.until_s for trial in scene.trials if is_in_force(trial)), default=math.inf)
        return replace(scene, again_at_s=min(scene.again_at_s, due_s))

    def _looked(self, scene: Scene, plan: Plan, waits: list[int]) -> Scene:
        """Look for new pairs when it is time; the next look is noted with the speeds."""
        memory, now_s = _memory(scene.trials), scene.snapshot.now_s
        if memory is None or now_s < memory.until_s - 1e-6:
            due_s = math.inf if memory is None else memory.until_s
            return replace(scene, again_at_s=min(scene.again_at_s, due_s))
        scene = self._with_new_pairs(scene, plan, waits)
        due_s = now_s + self.look_s
        trials = tuple(replace(trial, until_s=due_s) if trial is memory else trial for trial in scene.trials)
        return replace(scene, trials=trials, again_at_s=min(scene.again_at_s, due_s))

    def _with_new_pairs(self, scene: Scene, plan: Plan, waits: list[int]) -> Scene:
        snapshot, jobs = scene.snapshot, scene.snapshot.jobs
        alone = _known_alone(scene.trials)
        ids: list[int] = jobs.job_id.tolist()
        servers: list[int] = snapshot.servers.server_id.tolist()
        seats = seats_by_job(plan.grants)
        busy = busy_servers(scene.trials)
        taken = set(scene.riding) | set(scene.riding.values())
        apart = {trial.jobs for trial in scene.trials if trial.kind is TrialKind.PACK}
        hosts = [row for row in seats if row not in taken and row not in plan.resized and ids[row] in alone]
        guests = [row for row in waits if ids[row] in alone]
        begun: dict[int, int] = {}
        trials = list(scene.trials)
        for host, guest in least_busy_first(snapshot, hosts, guests):
            place = {servers[server] for server, _ in seats[host]}
            pair = (ids[host], ids[guest])
            if host in taken or guest in taken or busy & place or apart & {pair, pair[::-1]}:
                continue
            if not fits(snapshot, plan, host, guest, num_servers=len(seats[host])):
                continue
            begun[guest] = host
            taken |= {host, guest}
            busy |= place
            trials.append(
                Trial(
                    kind=TrialKind.PACK,
                    jobs=pair,
                    servers=tuple(sorted(place)),
                    values=(alone[pair[0]], alone[pair[1]]),
                    began_s=snapshot.now_s,
                    until_s=snapshot.now_s + self.trial_s,
                    verdict=Verdict.TRYING,
                )
            )
        return replace(
            scene,
            snapshot=bound_together(snapshot, begun, trials),
            riding={**scene.riding, **begun},
            trials=tuple(trials),
        )


def _alone(scene: Scene, riding: Mapping[int, int], apart: list[int]) -> Trial:
    """Return the memory of how fast each job is alone; what runs alone now is measured anew."""
    jobs, now_s = scene.snapshot.jobs, scene.snapshot.now_s
    known = _known_alone(scene.trials)
    shares = {*riding, *riding.values(), *apart}
    told = jobs.running & (jobs.rate > 0) & (now_s > jobs.held_at_s)
    told[[row for trial in scene.trials if is_in_force(trial) for row in _rows(scene.snapshot, trial)]] = False
    speeds = {}
    for row, (job, rate) in enumerate(zip(jobs.job_id.tolist(), jobs.rate.tolist(), strict=True)):
        if told[row] and row not in shares:
            speeds[job] = rate
        elif job in known:
            speeds[job] = known[job]
    before = _memory(scene.trials)
    return Trial(
        kind=TrialKind.ALONE,
        jobs=tuple(speeds),
        values=tuple(speeds.values()),
        began_s=now_s if before is None else before.began_s,
        until_s=now_s if before is None else before.until_s,
    )


def _rows(snapshot: Snapshot, trial: Trial) -> list[int]:
    return np.flatnonzero(np.isin(snapshot.jobs.job_id, trial.jobs)).tolist()


def _memory(trials: tuple[Trial, ...]) -> Trial | None:
    return next((trial for trial in trials if trial.kind is TrialKind.ALONE), None)


def _known_alone(trials: tuple[Trial, ...]) -> Mapping[int, float]:
    memory = _memory(trials)
    return dict(zip(memory.jobs, memory.values, strict=True)) if memory else {}


def _released(scene: Scene, plan: Plan) -> Scene:
    """Let guests go to GPUs of their own, in the order of the policy, as far as there are some."""
    jobs = scene.snapshot.jobs
    free = sum(free_gpus(scene.snapshot, plan.grants, plan.riding))
    leave = []
    for row in plan.order:
        if row in plan.riding and jobs.num_gpus[row] <= free:
            free -= int(jobs.num_gpus[row])
            leave.append(row)
    if not leave:
        return scene
    ids = {int(jobs.job_id[row]) for row in leave}
    return replace(
        scene,
        snapshot=without_seats(scene.snapshot, np.array(leave, dtype=np.int64)),
        riding={guest: host for guest, host in scene.riding.items() if guest not in leave},
        must_run=scene.must_run | set(leave),
        trials=tuple(t for t in scene.trials if not (is_in_force(t) and t.jobs[1] in ids)),
    )
