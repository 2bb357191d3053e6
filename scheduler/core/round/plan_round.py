"""One round: who runs, where, with how much, who has to stop, and why everybody else waits."""

import gc
from collections.abc import Iterator, Set
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from scheduler.core.model.cpu_memory_bounds import Needs, needs_of
from scheduler.core.model.plan import Evidence, Plan, Preemptions, PreemptRule, plan_digest
from scheduler.core.model.queue_tree import queue_tree
from scheduler.core.model.tables import NO_ROW, BoolArray, Placements, Snapshot, in_server_order
from scheduler.core.packing.board import Seated
from scheduler.core.packing.draft import Draft
from scheduler.core.packing.locality import Binds
from scheduler.core.packing.selection import Selection
from scheduler.core.round.avoided_servers import with_avoided
from scheduler.core.round.capabilities import repacks
from scheduler.core.round.claim_order import Line
from scheduler.core.round.config import SchedulerConfig
from scheduler.core.round.elastic import Shared, explained, with_shares
from scheduler.core.round.feasibility import shapes_of
from scheduler.core.round.home_swaps import sent_home
from scheduler.core.round.introspection_loop import introspect
from scheduler.core.round.invariants import check
from scheduler.core.round.loans import Loans, lend
from scheduler.core.round.seat_jobs import Chosen, choose
from scheduler.core.round.user_limits import Beyond, beyond_limits, with_limits_told
from scheduler.core.round.wait_reasons import explain


def plan_round(snapshot: Snapshot, config: SchedulerConfig) -> Plan:
    """Return what the round decides. Pure: the same snapshot and configuration give the same plan.

    Raises:
        PlanInvariantError: If the plan breaks a safety rule; that is a defect, and the plan must not be used.
    """
    with _without_collections():
        plan = introspect(snapshot, config, _decide) if config.introspection else _decide(snapshot, config)
        check(plan, snapshot)
    return plan


@contextmanager
def _without_collections() -> Iterator[None]:
    """Keep the collector from going through a plan again and again while it is made, a tenth of the time of a round.

    Nothing is lost: what a round leaves is not in cycles, so counting references frees it.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _decide(snapshot: Snapshot, config: SchedulerConfig) -> Plan:
    ordered, server_row = in_server_order(snapshot)
    config = with_avoided(ordered, config)
    tree = queue_tree(ordered.queues)
    shared = with_shares(ordered, config, tree)
    ordered = shared.snapshot
    jobs, mechanism = ordered.jobs, config.mechanism
    needs = needs_of(jobs, ordered.servers, trims=mechanism.trims, insists=mechanism.insists)
    shapes = shapes_of(jobs, ordered.servers, needs, config.locality.kinds(jobs, ordered.now_s))
    shapes = replace(shapes, possible=shapes.possible & ~shared.unshared)
    beyond: dict[int, Beyond] = {}
    if ordered.queues.user_max_gpus.any():
        beyond = beyond_limits(jobs, ordered.queues, shared.order, shapes.possible)
        shapes.possible[list(beyond)] = False
    chosen = choose(ordered, config, needs, shapes, tree, shared.order)
    line, selection = chosen.line, chosen.selection
    loans = lend(shared, config, tree, chosen.board, shapes.possible)
    repacked = _free_to_move(ordered, config) if repacks(mechanism) else np.zeros(len(jobs), dtype=np.bool_)
    kept = set(np.flatnonzero(chosen.seated).tolist()) - selection.displaced.keys() | loans.at_home
    draft = _draft(ordered, chosen, loans, needs, repacked)
    if isinstance(config.locality, Binds):
        draft = sent_home(draft, draft.seats.keys() - kept, config.locality)
    grants = mechanism.grant(draft)
    moved = _moved(grants, draft, kept) if repacked.any() else frozenset()
    waiting = explain(
        ordered, line=line, shapes=shapes, tree=tree, selection=selection, board=chosen.board, needs=needs
    )
    waiting = with_limits_told(explained(waiting, shared, tree), beyond, jobs, ordered.queues)
    grants = grants.on_servers(server_row)
    preemptions = _preemptions(shared, line, selection, chosen.seated, kept, moved)
    kept -= moved
    resized = frozenset(row for row in np.flatnonzero(shared.changed).tolist() if row in kept)
    lent = loans.at_home | loans.elsewhere | (kept & set(np.flatnonzero(shared.still_lent).tolist()))
    return Plan(
        grants=grants,
        order=line.order.tolist(),
        kept=frozenset(kept) - resized,
        resized=resized,
        preemptions=preemptions,
        waiting=waiting,
        plan_hash=plan_digest(snapshot, grants=grants, order=line.order, preemptions=preemptions, waiting=waiting),
        lent=frozenset(lent),
    )


def _free_to_move(snapshot: Snapshot, config: SchedulerConfig) -> BoolArray:
    """Return (n,) jobs that a mechanism which places all jobs anew may move."""
    jobs = snapshot.jobs
    old = snapshot.now_s - jobs.held_at_s >= config.min_run_s
    return ~jobs.running | (jobs.preemptible & old & config.preempt)


def _draft(snapshot: Snapshot, chosen: Chosen, loans: Loans, needs: Needs, repacked: BoolArray) -> Draft:
    board = chosen.board
    runs = board.server[: len(snapshot.jobs)] != NO_ROW
    order = chosen.line.order
    seats = Seated(board, order[runs[order]])
    free_to_move = np.flatnonzero(repacked & runs).tolist()
    movable = frozenset(
        row for row in (*chosen.selection.on_free, *loans.elsewhere, *free_to_move) if len(seats[row]) == 1
    )
    room = list(board.space.free)
    for row in movable:
        server, gpus = seats[row][0]
        room[server] += gpus
    return Draft(
        jobs=snapshot.jobs, servers=snapshot.servers, needs=needs, seats=seats, movable=movable, room=tuple(room)
    )


def _moved(grants: Placements, draft: Draft, kept: Set[int]) -> frozenset[int]:
    """Return the running jobs that keep GPUs, but on another server."""
    at = zip(grants.job.tolist(), grants.server.tolist(), grants.num_gpus.tolist(), strict=True)
    return frozenset(row for row, *seat in at if row in kept and tuple(seat) not in draft.seats[row])


def _preemptions(
    shared: Shared, line: Line, selection: Selection, seated: BoolArray, kept: Set[int], moved: frozenset[int]
) -> Preemptions:
    jobs = shared.snapshot.jobs
    withdrawn = shared.unshared | shared.changed
    shares = line.admission.shares.tolist()
    held = np.bincount(jobs.queue[seated], weights=jobs.num_gpus[seated], minlength=len(shares)).tolist()
    leaves = jobs.running.copy()
    leaves[list(kept)] = False
    leaves[list(moved)] = True
    rows = line.order[leaves[line.order]]
    takers = np.array([selection.displaced.get(row, NO_ROW) for row in rows.tolist()], dtype=np.int64)
    positions = line.position[rows], line.position[takers]
    columns = (rows, takers, *positions, jobs.queue[rows], jobs.num_gpus[rows], jobs.unsaved_s[rows])
    rules, told = [], []
    for row, by_job, position, by_position, queue, num_gpus, unsaved_s in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        evidence: Evidence = {"num_gpus": num_gpus, "unsaved_s": unsaved_s}
        if row in moved:
            rule = PreemptRule.REPACKED
        elif shared.reclaimed[row]:
            rule = PreemptRule.QUOTA_RECLAIM
            evidence["queue_held_gpus"] = int(shared.given_gpus[queue])
            evidence["queue_share_gpus"] = int(shared.queue_gpus[queue])
        elif by_job == NO_ROW:
            rule = PreemptRule.NO_SHARE if withdrawn[row] else PreemptRule.SERVER_GONE
        elif row in selection.reclaimed or by_position > position:
            rule = PreemptRule.QUOTA_RECLAIM
            evidence["queue_held_gpus"], evidence["queue_share_gpus"] = int(held[queue]), int(shares[queue])
        else:
            rule = PreemptRule.POLICY_ORDER
            evidence["position"], evidence["by_position"] = position + 1, by_position + 1
        rules.append(rule)
        told.append(evidence)
    return Preemptions(job=rows, rules=rules, by_job=takers, evidence=told)
