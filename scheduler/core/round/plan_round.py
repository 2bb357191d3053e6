"""One round: which jobs run, on which GPUs, with which cores and memory, which are preempted, and why the others wait.

The only place where scheduling is decided; live rounds, replays, previews and forecasts all call ``plan_round``. Every
plan is checked by ``invariants.check``; tests/oracle holds it against a slow and simple second implementation.
"""

import gc
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import numpy as np

from scheduler.core.model.barred import barred_rows
from scheduler.core.model.plan import Evidence, Plan, Preemptions, PreemptRule, plan_digest
from scheduler.core.model.queue_tree import queue_tree
from scheduler.core.model.tables import NO_ROW, BoolArray, Placements, Snapshot, in_server_order
from scheduler.core.packing.board import Seated
from scheduler.core.packing.draft import Draft
from scheduler.core.packing.kept_placements import seats_by_job
from scheduler.core.packing.locality import Binds
from scheduler.core.packing.selection import Selection
from scheduler.core.round.avoided_servers import with_avoided
from scheduler.core.round.capabilities import repacks
from scheduler.core.round.claim_order import Line, displaced_by
from scheduler.core.round.config import SchedulerConfig
from scheduler.core.round.held_back import held_rows, plan_without
from scheduler.core.round.home_swaps import sent_home
from scheduler.core.round.introspection_loop import introspect
from scheduler.core.round.invariants import check
from scheduler.core.round.round_state import RoundState, job_demands, round_state
from scheduler.core.round.seat_jobs import seat_jobs
from scheduler.core.round.shares.elastic import Shared, with_shares
from scheduler.core.round.shares.loans import LentSeats, lend
from scheduler.core.round.user_limits import Beyond, beyond_limits, with_limits_told
from scheduler.core.round.wait_reasons import explain


def plan_round(snapshot: Snapshot, config: SchedulerConfig) -> Plan:
    """Return what the round decides. Pure: the same snapshot and configuration give the same plan.

    Raises:
        PlanInvariantError: If the plan breaks a safety rule; that is a defect, and the plan must not be used.
    """
    with _without_collections():
        held = held_rows(snapshot)
        plan = plan_without(snapshot, held, partial(_plan, config)) if held else _plan(config, snapshot)
        check(plan, snapshot)
    return plan


def _plan(config: SchedulerConfig, snapshot: Snapshot) -> Plan:
    return introspect(snapshot, config, _decide) if config.introspection else _decide(snapshot, config)


@contextmanager
def _without_collections() -> Iterator[None]:
    """Switch Python's garbage collector off while a plan is made, which saves a tenth of the time of a round.

    Nothing leaks: a round leaves no reference cycles, so reference counting frees all of it.
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
    home = ordered.held
    shared = with_shares(ordered, config, tree)
    ordered = shared.snapshot
    jobs, mechanism = ordered.jobs, config.mechanism
    demands = job_demands(jobs, ordered.servers, config, now_s=ordered.now_s, barred=barred_rows(ordered))
    shapes = replace(demands.shapes, possible=demands.shapes.possible & ~shared.unshared)
    beyond: dict[int, Beyond] = {}
    if ordered.queues.user_max_gpus.any():
        beyond = beyond_limits(jobs, ordered.queues, shared.order, shapes.possible)
        shapes.possible[list(beyond)] = False
    state = round_state(ordered, config, tree, demands, order=shared.order)
    board, seated = state.board, state.seated
    line, selection = seat_jobs(
        ordered,
        config,
        state,
        rows=np.arange(len(jobs)),
        order=shared.order,
        possible=shapes.possible,
        seated=seated,
    )
    loans = lend(shared, config, tree, board, shapes.possible)
    repacked = _free_to_move(ordered, config) if repacks(mechanism) else np.zeros(len(jobs), dtype=np.bool_)
    kept = set(np.flatnonzero(seated).tolist()) - selection.displaced.keys() | loans.at_home
    draft = _draft(ordered, state, line, selection, loans, repacked)
    if isinstance(config.locality, Binds):
        draft = sent_home(draft, draft.seats.keys() - kept, config.locality)
    # Twin: QueueRounds._granted, which keeps cores and memory of all servers from round to round. Building those here
    # would cost every live round; tests/property/test_simulator_queue_rounds.py holds both to the same grants.
    grants = mechanism.grant(draft)
    moved = _moved(grants, draft, kept) if repacked.any() else frozenset()
    spared = _back_home(jobs.running, kept, home, grants)
    kept |= spared
    waiting = explain(
        ordered,
        line=line,
        shapes=shapes,
        tree=tree,
        selection=selection,
        board=board,
        needs=demands.needs,
        grants=grants,
        unshared=shared.unshared,
    )
    waiting = with_limits_told(waiting, beyond, ordered)
    grants = grants.on_servers(server_row)
    takers = {row: by_job for row, by_job in selection.displaced.items() if by_job not in spared}
    runs = board.server[: len(jobs)] != NO_ROW
    preemptions = _preemptions(shared, line, selection, takers, seated, runs, kept, moved)
    kept -= moved
    resized = frozenset(row for row in np.flatnonzero(shared.changed).tolist() if row in kept) - spared
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
        keys=shared.keys,
    )


def _free_to_move(snapshot: Snapshot, config: SchedulerConfig) -> BoolArray:
    """Return (n,) jobs that a mechanism which places all jobs anew may move."""
    jobs = snapshot.jobs
    old = snapshot.now_s - jobs.held_at_s >= config.min_run_s
    return ~jobs.running | (jobs.preemptible & old & config.preempt)


def _draft(
    snapshot: Snapshot, state: RoundState, line: Line, selection: Selection, loans: LentSeats, repacked: BoolArray
) -> Draft:
    board = state.board
    runs = board.server[: len(snapshot.jobs)] != NO_ROW
    seats = Seated(board, line.order[runs[line.order]])
    free_to_move = np.flatnonzero(repacked & runs).tolist()
    barred = state.demands.needs.barred
    movable = frozenset(
        row
        for row in (*selection.on_free, *loans.elsewhere, *free_to_move)
        if len(seats[row]) == 1 and row not in barred
    )
    room = list(board.space.free)
    for row in movable:
        server, gpus = seats[row][0]
        room[server] += gpus
    return Draft(
        jobs=snapshot.jobs,
        servers=snapshot.servers,
        needs=state.demands.needs,
        seats=seats,
        movable=movable,
        room=tuple(room),
    )


def _moved(grants: Placements, draft: Draft, kept: Set[int]) -> frozenset[int]:
    """Return the running jobs that keep GPUs, but on another server."""
    at = zip(grants.job.tolist(), grants.server.tolist(), grants.num_gpus.tolist(), strict=True)
    return frozenset(row for row, *seat in at if row in kept and tuple(seat) not in draft.seats[row])


def _back_home(running: BoolArray, kept: Set[int], home: Placements, grants: Placements) -> frozenset[int]:
    """Return the jobs that had to leave and were seated again just where they ran: they go on."""
    leaves = running.copy()
    leaves[list(kept)] = False
    if not leaves.any():
        return frozenset()
    before, after = (seats_by_job(table.at(leaves[table.job])) for table in (home, grants))
    return frozenset(row for row, seats in before.items() if after.get(row) == seats)


def _preemptions(
    shared: Shared,
    line: Line,
    selection: Selection,
    taker: Mapping[int, int],
    seated: BoolArray,
    runs: BoolArray,
    kept: Set[int],
    moved: frozenset[int],
) -> Preemptions:
    """Return why each running job that is not kept leaves its GPUs.

    ``taker`` has the jobs that took the GPUs of displaced ones; ``runs`` are the (n,) jobs with GPUs after the round.
    """
    jobs = shared.snapshot.jobs
    withdrawn, is_sharing = shared.unshared | shared.changed, bool(shared.given_gpus.any())
    shares = line.admission.shares.tolist()
    held = np.bincount(jobs.queue[seated], weights=jobs.num_gpus[seated], minlength=len(shares)).tolist()
    leaves = jobs.running.copy()
    leaves[list(kept)] = False
    leaves[list(moved)] = True
    rows = line.order[leaves[line.order]]
    takers = np.array([taker.get(row, NO_ROW) for row in rows.tolist()], dtype=np.int64)
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
            rule = PreemptRule.SERVER_GONE
            if withdrawn[row] or (is_sharing and row in selection.displaced):
                # No policy takes the GPUs of a protected job: its server has less than it insists on.
                no_share = PreemptRule.NO_SHARE if jobs.preemptible[row] else PreemptRule.SERVER_GONE
                rule = PreemptRule.MOVED if runs[row] else no_share
        else:
            rule = displaced_by(line, selection, row, by_job)
            if rule is PreemptRule.POLICY_ORDER:
                evidence["position"], evidence["by_position"] = position + 1, by_position + 1
            else:
                evidence["queue_held_gpus"], evidence["queue_share_gpus"] = int(held[queue]), int(shares[queue])
        rules.append(rule)
        told.append(evidence)
    return Preemptions(job=rows, rules=rules, by_job=takers, evidence=told)
