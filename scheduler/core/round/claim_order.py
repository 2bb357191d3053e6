"""Decide in which order jobs claim GPUs in a round, and in which order running jobs are preempted for them."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from scheduler.core.model.plan import PreemptRule
from scheduler.core.model.queue_tree import QueueTree
from scheduler.core.model.tables import NO_ROW, BoolArray, FloatArray, IntArray, JobTable, Snapshot
from scheduler.core.packing.claims import NO_TURN, Claims, DisplaceableJobs, Part
from scheduler.core.packing.selection import Selection
from scheduler.core.round.admission import Admission, Standing, admit
from scheduler.core.round.config import SchedulerConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """The order of a round.

    Attributes:
        order: (n,) job rows in the order of the policy.
        position: (n,) place of each job in ``order``, from 0.
        admission: What the queues say.
        claims: Which job claims when, and which running jobs it may displace.
        passes_over: Whether jobs use up no quota because no servers can hold them now.
        stoppable: (n,) running jobs that a job before them in the order may stop.
        queue: (n,) queue of each job.
        tree: The queues.
    """

    order: IntArray
    position: IntArray
    admission: Admission
    claims: Claims
    passes_over: bool
    stoppable: BoolArray
    queue: IntArray
    tree: QueueTree


def policy_order(snapshot: Snapshot, config: SchedulerConfig) -> IntArray:
    """Return (n,) job rows, first the job that the policy puts first; ties by first start, arrival, id."""
    return by_keys(snapshot.jobs, config.policy.priority(snapshot))


def by_keys(jobs: JobTable, keys: FloatArray) -> IntArray:
    """Return (n,) job rows by (n,) keys of a policy, as ``policy_order``."""
    order: IntArray = keys.argsort()
    in_order = keys[order]
    if (in_order[1:] > in_order[:-1]).all():
        return order  # no ties: a third of the time
    return np.lexsort((jobs.job_id, jobs.arrival_s, jobs.first_start_s, keys))


def line_up(
    snapshot: Snapshot,
    config: SchedulerConfig,
    tree: QueueTree,
    *,
    order: IntArray,
    possible: BoolArray,
    seated: BoolArray,
    passed_over: BoolArray | None = None,
    stays: BoolArray | None = None,
    behind: IntArray | None = None,
) -> Line:
    """Return the order of the round.

    Args:
        snapshot: What the round looks at.
        config: How it decides.
        tree: The queues.
        order: (n,) job rows in the order of the policy.
        possible: (n,) jobs that could run at all; the others claim nothing.
        seated: (n,) running jobs that could keep their servers.
        passed_over: (n,) jobs that use up no quota, because no servers can hold them now; None for none.
        stays: (n,) running jobs that are not known to leave; None for all that are seated.
        behind: See ``admit``.
    """
    jobs = snapshot.jobs
    position = np.empty_like(order)
    position[order] = np.arange(len(order))
    by_order = config.policy.preemptive and config.preempt
    locked = seated
    if by_order:
        locked = seated & ~jobs.preemptible
        if config.min_run_s > 0:
            locked |= seated & (snapshot.now_s - jobs.held_at_s < config.min_run_s)
    claiming = order[(possible | seated)[order]]
    sequence = claiming if passed_over is None else claiming[~passed_over[claiming]]
    counts_anyway = np.zeros_like(seated)
    if not by_order:
        # Running jobs go on, so they use up the quota of their queue before jobs that wait.
        sits = seated[sequence]
        sequence = np.concatenate((sequence[sits], sequence[~sits]))
        counts_anyway = seated if stays is None else seated & stays
    capacity = int(snapshot.servers.num_gpus.sum())
    admission = admit(
        tree,
        jobs,
        sequence=sequence,
        locked=locked,
        counts_anyway=counts_anyway,
        capacity_gpus=capacity,
        behind=behind,
    )
    in_line = not getattr(config.policy, "backfill", True)  # ``MayBackfill``; asking for the protocol is slow
    if in_line:
        admission = _never_stronger_than_those_before(admission, tree, jobs, claiming[~seated[claiming]])
    place = position + len(order) * (admission.standing == Standing.BEYOND)
    is_covered = admission.cover != NO_ROW
    others = claiming[~is_covered[claiming]]
    others = others[np.argsort(place[others], kind="stable")]
    candidates = _Candidates(
        jobs=jobs,
        tree=tree,
        admission=admission,
        order=order,
        position=position,
        place=place,
        seated=seated,
        locked=locked,
    )
    claims = Claims(
        covered=_part(claiming[is_covered[claiming]], position, seated, locked, candidates.for_covered),
        others=_part(others, place, seated, locked, candidates.for_others),
        place=place,
        cover=admission.cover,
        may_reclaim=is_covered & (jobs.waited_s >= config.reclaim_after_s),
        in_line=in_line,
    )
    passes_over = passed_over is not None
    return Line(
        order=order,
        position=position,
        admission=admission,
        claims=claims,
        passes_over=passes_over,
        stoppable=seated & ~locked,
        queue=jobs.queue,
        tree=tree,
    )


def displaced_by(line: Line, selection: Selection, row: int, by_job: int) -> PreemptRule:
    """Return the rule by which a job took the GPUs of another; rows of the JobTable."""
    cover = line.claims.cover.item(by_job)
    if row in selection.reclaimed and cover not in line.tree.paths[line.queue.item(row)]:
        return PreemptRule.QUOTA_RECLAIM
    if line.stoppable.item(row) and line.position.item(by_job) < line.position.item(row):
        return PreemptRule.POLICY_ORDER
    # The order did not decide: the job comes first in it, or may not be stopped by it. So the right of a queue did.
    return PreemptRule.QUOTA_RECLAIM if cover != NO_ROW else PreemptRule.OVER_SHARE


def _part(
    rows: IntArray, turn: IntArray, seated: BoolArray, locked: BoolArray, displaceable: Callable[[], DisplaceableJobs]
) -> Part:
    """Return a part of the walk over ``rows``, by turn."""
    sits, holds = seated[rows], locked[rows]
    waiting, movable = rows[~sits], rows[sits & ~holds]
    return Part(
        waiting=waiting,
        waiting_turn=turn[waiting],
        seated=movable,
        seated_turn=turn[movable],
        locked=rows[holds],
        displaceable=displaceable,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidates:
    """Running jobs in the order in which they have to give up their GPUs."""

    jobs: JobTable
    tree: QueueTree
    admission: Admission
    order: IntArray
    position: IntArray
    place: IntArray
    seated: BoolArray
    locked: BoolArray

    def _spare(self, *, covered: bool) -> IntArray:
        """Return the running jobs that the order may displace, the last in the order first."""
        spare = (self.admission.cover != NO_ROW) if covered else (self.admission.cover == NO_ROW)
        spare &= self.seated & ~self.locked
        first_to_last: IntArray = self.order[spare[self.order]]
        return first_to_last[::-1]

    def _borrowers(self) -> IntArray:
        borrowers = self._spare(covered=False)
        return borrowers[np.argsort(-self.place[borrowers], kind="stable")]

    def for_others(self) -> DisplaceableJobs:
        """Return the running jobs that a job without quota may displace."""
        job = self._borrowers()
        return DisplaceableJobs(job=job, turn=self.place[job], locked=self.locked[job])

    def for_covered(self) -> DisplaceableJobs:
        """Return the running jobs that covered jobs may displace: borrowers first, also those the order protects."""
        protected = np.flatnonzero(self.locked & (self.admission.cover == NO_ROW))
        protected = _over_share_first(self.jobs, protected, self.admission, self.tree, self.seated, self.position)
        borrowers, covered = self._borrowers(), self._spare(covered=True)
        job = np.concatenate((borrowers, protected, covered))
        turn = self.position[job]
        turn[: len(borrowers) + len(protected)] = NO_TURN
        return DisplaceableJobs(job=job, turn=turn, locked=self.locked[job])


def _never_stronger_than_those_before(
    admission: Admission, tree: QueueTree, jobs: JobTable, waiting: IntArray
) -> Admission:
    """Return the standings where no waiting job overtakes another of its queue; ``waiting`` in the order of the policy.

    A job that a quota would cover only by overtaking a wider job waits with that job.
    """
    cap = np.array([min(tree.cap[node] for node in path) for path in tree.paths], dtype=np.int64)
    waiting = waiting[jobs.num_gpus[waiting] <= cap[jobs.queue[waiting]]]
    waiting = waiting[np.argsort(jobs.queue[waiting], kind="stable")]
    above_all = len(Standing) * jobs.queue[waiting]
    weakest = np.maximum.accumulate(above_all + admission.standing[waiting]) - above_all
    standing, cover = admission.standing.copy(), admission.cover.copy()
    standing[waiting] = weakest
    cover[waiting[weakest != Standing.COVERED]] = NO_ROW
    return replace(admission, standing=standing, cover=cover)


def _over_share_first(
    jobs: JobTable, rows: IntArray, admission: Admission, tree: QueueTree, seated: BoolArray, position: IntArray
) -> IntArray:
    """Return borrowers that the order protects, in the order in which owners take their quota back from them.

    Always from the queue that is then furthest over its share; inside a queue the job that loses the least work, then
    the newest placement; jobs that are not preemptible after all others.
    """
    queue, gpus = jobs.queue[rows], jobs.num_gpus[rows]
    inside = np.lexsort((-position[rows], -jobs.held_at_s[rows], jobs.unsaved_s[rows], ~jobs.preemptible[rows], queue))
    rows, queue, gpus = rows[inside], queue[inside], gpus[inside]
    held = np.bincount(jobs.queue[seated], weights=jobs.num_gpus[seated], minlength=len(tree.quota))
    taken_before = np.cumsum(gpus) - gpus
    first_of_queue = np.searchsorted(queue, queue)
    taken_in_queue = taken_before - taken_before[first_of_queue] if len(rows) else taken_before
    over = held[queue] - admission.shares[queue] - taken_in_queue
    by_over = np.lexsort((-position[rows], -jobs.held_at_s[rows], jobs.unsaved_s[rows], -over, ~jobs.preemptible[rows]))
    return rows[by_over]
