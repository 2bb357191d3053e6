"""Time slicing: when more jobs want GPUs than there are, they take turns."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from scheduler.core.model.plan import Plan, WaitReason
from scheduler.core.model.tables import NO_ROW, FloatArray, IntArray, JobTable, Snapshot
from scheduler.core.model.trial import Trial, TrialKind
from scheduler.core.packing.draft import Seats
from scheduler.core.packing.free_gpus import FreeGpus, Gang
from scheduler.core.packing.locality import Locality, LooksAtSizes
from scheduler.core.round.config import Policy, Scene, SharePolicy
from scheduler.core.round.introspection_loop import SHORT_OF_ROOM

# Reasons to wait that a turn can end; jobs of a queue that holds all it may take turns among themselves.
_WAITS_FOR_A_TURN = SHORT_OF_ROOM | {WaitReason.QUEUE_QUOTA, WaitReason.QUEUE_MAX}
# A round that comes a moment early still ends the quantum.
_EARLY_S = 1e-6
# Quanta end a moment early or late: jobs whose virtual times differ by less than this part of a quantum count as level.
_SAME_TURN = 0.5
# A job takes a GPU on another server, which costs it a launch, only when it is so many quanta behind the jobs there.
_MOVES_AFTER = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Slicing:
    """Jobs take turns: the one with the least time for its weight runs next, for a quantum; policies break ties.

    Nothing is stopped inside a quantum, and gangs on several servers take their turn on all of them together. A job
    that joins begins where the job with the least time stands, so that a newcomer owes nothing and is owed nothing.
    A suspended job goes back to its server when there is room, and elsewhere when it is a turn behind the jobs there.
    Policies that choose shares slice time themselves: under those nothing is done.

    Source: Xiao et al., "Gandiva", OSDI 2018, suspend-resume and weighted round robin. Differs: one round robin over
    the whole cluster, in which going elsewhere costs a turn, instead of one a server.
    """

    name: ClassVar[str] = "slicing"
    takes_turns: ClassVar[bool] = True

    quantum_s: float = field(
        default=60.0, metadata={"help": "How long a job runs before the next takes its turn.", "minimum": 1.0}
    )

    def prepare(self, scene: Scene) -> Scene:
        """Let the job with the least time for its weight come first, and protect running jobs inside a quantum."""
        if isinstance(scene.config.policy, SharePolicy):
            return scene
        snapshot, jobs = scene.snapshot, scene.snapshot.jobs
        before = next((trial for trial in scene.trials if trial.kind is TrialKind.SLICE), None)
        turns_over = before is None or snapshot.now_s >= before.until_s - _EARLY_S
        began_s = snapshot.now_s if before is None or turns_over else before.began_s
        homes, joined_s = _homes(snapshot, before), _joined(jobs, before)
        away = [] if before is None or turns_over else _away(jobs, before)
        memory = Trial(
            kind=TrialKind.SLICE,
            jobs=(*jobs.job_id.tolist(), *(job for job, _, _ in away)),
            servers=(*homes, *(home for _, home, _ in away)),
            values=(*joined_s, *(joined for _, _, joined in away)),
            began_s=began_s,
            until_s=began_s + self.quantum_s,
        )
        by_id = np.argsort(jobs.job_id, kind="stable")
        virtual_s = np.array(joined_s) + jobs.executed_s / jobs.weight
        policy = _Turns(
            base=scene.config.policy,
            quantum_s=self.quantum_s,
            job_id=jobs.job_id[by_id],
            quanta=(virtual_s / self.quantum_s)[by_id],
            home=np.array(homes, dtype=np.int64)[by_id],
        )
        config = replace(
            scene.config,
            policy=policy,
            locality=_at_home(scene, homes),
            preempt=True,
            min_run_s=scene.config.min_run_s if turns_over else math.inf,
        )
        trials = (*(trial for trial in scene.trials if trial.kind is not TrialKind.SLICE), memory)
        return replace(scene, config=config, trials=trials)

    def propose(self, scene: Scene, plan: Plan) -> Scene:
        """Ask for a round at the end of the quantum while a job waits for a turn; else there is no quantum.

        A job that is leaving its GPUs waits, too, as soon as it has left them.
        """
        memory = next((trial for trial in scene.trials if trial.kind is TrialKind.SLICE), None)
        if memory is None:
            return scene
        is_short = len(memory.jobs) > len(scene.snapshot.jobs)
        if is_short or any(entry.reason in _WAITS_FOR_A_TURN for entry in plan.waiting):
            return replace(scene, again_at_s=min(scene.again_at_s, memory.until_s))
        over = replace(memory, until_s=-math.inf)
        return replace(scene, trials=tuple(over if trial is memory else trial for trial in scene.trials))


def _joined(jobs: JobTable, before: Trial | None) -> tuple[float, ...]:
    """Return the virtual time at which each job joined; newcomers start level with the least virtual time."""
    ran_s = (jobs.executed_s / jobs.weight).tolist()
    known: Mapping[int, float] = dict(zip(before.jobs, before.values, strict=True)) if before else {}
    ids: list[int] = jobs.job_id.tolist()
    least_s = min((known[job] + ran_s[row] for row, job in enumerate(ids) if job in known), default=None)
    if least_s is None:  # no job has had a turn yet: all begin with the time that they had before
        return (0.0,) * len(ids)
    return tuple(known[job] if job in known else least_s - ran_s[row] for row, job in enumerate(ids))


def _turns_had(quanta: FloatArray) -> IntArray:
    """Return the order of times, in quanta, as numbers from 0; times that are nearly the same have the same."""
    order = np.argsort(quanta, kind="stable")
    ascending, found, turn, begin = quanta[order], np.zeros(len(quanta), dtype=np.int64), 0, 0
    while begin < len(ascending):
        end = int(np.searchsorted(ascending, ascending[begin] + _SAME_TURN, side="left"))
        end = max(end, begin + 1)
        found[order[begin:end]] = turn
        turn, begin = turn + 1, end
    return found


def _away(jobs: JobTable, before: Trial) -> list[tuple[int, int, float]]:
    """Return what is known of jobs that are not here now: number, home, virtual time at which it joined.

    A job on its way off its GPUs is not here for a moment. Forgotten it would come back as a newcomer, which owes
    nothing for the turn that it just had. So no job is forgotten inside a quantum.
    """
    here = set(jobs.job_id.tolist())
    known = zip(before.jobs, before.servers, before.values, strict=True)
    return [(job, home, joined_s) for job, home, joined_s in known if job not in here]


def _homes(snapshot: Snapshot, before: Trial | None) -> tuple[int, ...]:
    """Return the id of the server on which each job runs or ran last; NO_ROW for none, or for several."""
    jobs, held, server_id = snapshot.jobs, snapshot.held, snapshot.servers.server_id
    known: Mapping[int, int] = dict(zip(before.jobs, before.servers, strict=True)) if before else {}
    homes = [known.get(job, NO_ROW) for job in jobs.job_id.tolist()]
    servers = np.bincount(held.job, minlength=len(jobs))
    for row, server in zip(held.job.tolist(), server_id[held.server].tolist(), strict=True):
        homes[row] = server if servers[row] == 1 else NO_ROW
    return tuple(homes)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Turns:
    """The policy of a round with time slicing: least virtual time first.

    Jobs with about the same virtual time go in this order: their quantum has just begun, they wait, they run, they have
    just stopped. A job that does not fit on its own server beside the jobs before it counts as having had more turns:
    elsewhere it would cost a launch. Other ties go over the servers in turn, so that jobs that stop and jobs that take
    their GPUs are of the same server, and on a server by the policy in ``base``.
    """

    name: ClassVar[str] = "turns"

    base: Policy
    quantum_s: float
    job_id: IntArray
    quanta: FloatArray
    home: IntArray

    @property
    def preemptive(self) -> bool:
        return True

    def priority(self, snapshot: Snapshot) -> FloatArray:
        jobs, now_s = snapshot.jobs, snapshot.now_s
        row = np.searchsorted(self.job_id, jobs.job_id)
        quanta, home = self.quanta[row], self.home[row]
        base = self.base.priority(snapshot)
        began = jobs.running & (now_s - jobs.held_at_s < self.quantum_s / 2)
        stopped = ~jobs.running & np.isfinite(jobs.first_start_s) & (jobs.waited_s < self.quantum_s / 2)
        place = np.select([began, jobs.running, stopped], [0, 2, 3], default=1)
        # A waiting job replaces the last running one: the same server must be the first there and the last here.
        side = np.where(jobs.running, -1, 1)
        ties = (side * jobs.job_id, side * jobs.first_start_s, side * base)
        # A job whose own server is full with jobs before it would have to move: it waits until it is further behind.
        at_home = np.lexsort((jobs.job_id, jobs.first_start_s, base, place, _turns_had(quanta)))
        is_over = _taken_at(home, jobs.num_gpus, at_home) > _gpus_of(snapshot, home)
        turn = _turns_had(quanta + _MOVES_AFTER * is_over)
        lap = _laps(np.lexsort((*ties, home, place, turn)), (turn, place, home))
        # A job whose own server has no free GPU for it leaves the free GPUs of other servers to their jobs.
        is_away = ~jobs.running & (jobs.num_gpus * (lap + 1) > _free_at(snapshot, home))
        keys = (base, side * home, side * lap, is_away, place, turn)
        order = np.lexsort(keys)
        differs = np.ones(len(order), dtype=np.bool_)
        differs[1:] = np.any([key[order[1:]] != key[order[:-1]] for key in keys], axis=0)
        rank = np.empty(len(order))
        rank[order] = np.cumsum(differs)
        return rank


def _gpus_of(snapshot: Snapshot, home: IntArray) -> FloatArray:
    """Return (n,) GPUs of each home; +inf where a job has none, or it is gone: then it costs the same everywhere."""
    gpus = dict(zip(snapshot.servers.server_id.tolist(), snapshot.servers.num_gpus.tolist(), strict=True))
    return np.array([gpus.get(server, math.inf) for server in home.tolist()])


def _free_at(snapshot: Snapshot, home: IntArray) -> IntArray:
    """Return (n,) GPUs of each home that are free or about to be; 0 where there is no such server."""
    servers = snapshot.servers
    free = servers.num_gpus.copy()
    for taken in (snapshot.held, snapshot.releasing):
        np.subtract.at(free, taken.server, taken.num_gpus)
    free_at = dict(zip(servers.server_id.tolist(), free.tolist(), strict=True))
    return np.array([free_at.get(server, 0) for server in home.tolist()], dtype=np.int64)


def _taken_at(home: IntArray, num_gpus: IntArray, order: IntArray) -> IntArray:
    """Return (n,) GPUs that each job and those before it in the order ask for at its home."""
    by_home = order[np.argsort(home[order], kind="stable")]
    taken = np.cumsum(num_gpus[by_home])
    begins = np.flatnonzero(np.diff(home[by_home], prepend=NO_ROW - 1))
    before = np.repeat((taken - num_gpus[by_home])[begins], np.diff(begins, append=len(order)))
    found = np.empty(len(order), dtype=np.int64)
    found[by_home] = taken - before
    return found


def _laps(order: IntArray, groups: tuple[IntArray, ...]) -> IntArray:
    """Return (n,) how many come before each one of its group, where ``order`` has each group together."""
    begins = np.ones(len(order), dtype=np.bool_)
    begins[1:] = np.any([group[order[1:]] != group[order[:-1]] for group in groups], axis=0)
    at = np.arange(len(order))
    lap = np.empty(len(order), dtype=np.int64)
    lap[order] = at - np.maximum.accumulate(np.where(begins, at, 0))
    return lap


@dataclass(frozen=True, slots=True, kw_only=True)
class _AtHome:
    """A locality that first looks at the server on which a job was suspended."""

    name: ClassVar[str] = "at-home"

    base: Locality
    job_id: IntArray
    home: FloatArray

    def kinds(self, jobs: JobTable, now_s: float) -> tuple[FloatArray, ...]:
        return (*self.base.kinds(jobs, now_s), self.home[np.searchsorted(self.job_id, jobs.job_id)])

    def seats(self, space: FreeGpus, gang: Gang) -> Seats:
        home, gpus = int(gang.kind[-1]), gang.num_gpus
        if home != NO_ROW and space.free[home] >= gpus and (gang.fits is None or gang.fits(home, gpus)):
            return ((home, gpus),)
        return self.base.seats(space, replace(gang, kind=gang.kind[:-1]))

    def home_of(self, job_id: int) -> int:
        return int(self.home[np.searchsorted(self.job_id, job_id)])

    def binds(self, job_id: int, seats: Seats) -> bool:
        return self.home_of(job_id) == seats[0][0]


@dataclass(frozen=True, slots=True, kw_only=True)
class _AtHomeBySize(_AtHome):
    looks_at_sizes: ClassVar[bool] = True


def _at_home(scene: Scene, homes: tuple[int, ...]) -> Locality:
    jobs, base = scene.snapshot.jobs, scene.config.locality
    row_of = {server: row for row, server in enumerate(scene.snapshot.servers.server_id.tolist())}
    home = np.array([row_of.get(server, NO_ROW) for server in homes], dtype=np.float64)
    by_id = np.argsort(jobs.job_id, kind="stable")
    kind = _AtHomeBySize if isinstance(base, LooksAtSizes) else _AtHome
    return kind(base=base, job_id=jobs.job_id[by_id], home=np.where(jobs.running, NO_ROW, home)[by_id])
