"""A round with introspection: judge what was tried, decide, try something new, decide again.

Guests, jobs that share the GPUs of another, are taken out of the decision and put back beside their hosts afterwards.
The modules of ``scheduler/introspection`` choose what is tried.

Source: Xiao et al., "Gandiva: Introspective Cluster Scheduling for Deep Learning", OSDI 2018.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

import numpy as np

from scheduler.core.model.plan import (
    Evidence,
    Plan,
    Preemption,
    Preemptions,
    PreemptRule,
    WaitReason,
    Waits,
    plan_digest,
)
from scheduler.core.model.tables import NO_ROW, IntArray, Placements, Snapshot, in_server_order, only_jobs, seat_order
from scheduler.core.model.trial import NOTES, TrialKind, Verdict
from scheduler.core.packing.draft import Seats
from scheduler.core.packing.kept_placements import placed, seats_by_job
from scheduler.core.round.config import Scene, SchedulerConfig

Decide = Callable[[Snapshot, SchedulerConfig], Plan]

# Reasons to wait that more room would end.
SHORT_OF_ROOM = frozenset(
    {
        WaitReason.NO_CAPACITY,
        WaitReason.BEHIND_POLICY_ORDER,
        WaitReason.FRAGMENTATION,
        WaitReason.CPU_OR_MEMORY,
    }
)


def introspect(snapshot: Snapshot, config: SchedulerConfig, decide: Decide) -> Plan:
    """Return what the round decides, with what is tried and taken back in it."""
    ordered, server_row = in_server_order(snapshot)
    scene = Scene(snapshot=ordered, config=replace(config, introspection=()), trials=snapshot.trials)
    for part in config.introspection:
        scene = part.prepare(scene)
    plan = _decided(scene, decide)
    proposed = scene
    for part in config.introspection:
        proposed = part.propose(proposed, plan)
    if _changes_decision(proposed, scene):
        tried = _decided(proposed, decide)
        if _came_true(proposed, scene, tried):
            scene, plan = proposed, tried
        else:
            scene = _without_proposals(scene, proposed)
    else:
        scene = proposed
    if scene.config.policy is not config.policy:
        plan = replace(plan, keys=np.zeros(0))  # those of turns, not of the policy
    return _as_seen(plan, scene, ordered, snapshot, server_row)


def _changes_decision(proposed: Scene, scene: Scene) -> bool:
    """Return whether a proposal changes what is decided, and not only notes or the time of the next round."""
    return (
        proposed.snapshot is not scene.snapshot
        or proposed.config is not scene.config
        or proposed.riding != scene.riding
    )


def _decided(scene: Scene, decide: Decide) -> Plan:
    """Return the decision about the scene with its guests in it; rows are those of the scene."""
    if not scene.riding:
        return decide(scene.snapshot, scene.config)
    guests = np.zeros(len(scene.snapshot.jobs), dtype=np.bool_)
    guests[list(scene.riding)] = True
    rows = np.flatnonzero(~guests)
    return _with_guests(decide(only_jobs(scene.snapshot, rows), scene.config).on_rows(rows, len(guests)), scene)


def _with_guests(plan: Plan, scene: Scene) -> Plan:
    """Put every guest behind its host: on the same seats with half of the cores and bytes, or waiting like it."""
    guest_of = {host: guest for guest, host in scene.riding.items()}

    def together(host: int) -> tuple[int, ...]:
        return (host, guest_of[host]) if host in guest_of else (host,)

    order = [row for host in plan.order for row in together(host)]
    told = [*zip(plan.waiting.job.tolist(), plan.waiting.causes, strict=True)]
    waiting = Waits(
        job=np.array([row for host, _ in told for row in together(host)], dtype=np.int64),
        causes=[cause for host, cause in told for _ in together(host)],
    )
    grants = plan.grants
    shared = np.isin(grants.job, list(guest_of))
    halves = np.where(shared, 0.5, 1.0)
    guests = np.array([guest_of[host] for host in grants.job[shared].tolist()], dtype=np.int64)
    grants = Placements(
        job=np.concatenate((grants.job, guests)),
        server=np.concatenate((grants.server, grants.server[shared])),
        num_gpus=np.concatenate((grants.num_gpus, grants.num_gpus[shared])),
        cpus=np.concatenate((grants.cpus * halves, grants.cpus[shared] * 0.5)),
        memory_bytes=np.concatenate((grants.memory_bytes * halves, grants.memory_bytes[shared] * 0.5)),
    )
    sits = set(guests.tolist())
    riding = {guest: host for guest, host in scene.riding.items() if guest in sits}
    return replace(plan, grants=grants, order=order, waiting=waiting, riding=riding)


def _came_true(proposed: Scene, scene: Scene, plan: Plan) -> bool:
    """Return whether the plan contains everything that was proposed."""
    meant, before, found = (seats_by_job(held) for held in (proposed.snapshot.held, scene.snapshot.held, plan.grants))
    if any(found.get(row) != seats for row, seats in meant.items() if seats != before.get(row)):
        return False
    if any(guest not in plan.riding for guest in proposed.riding if guest not in scene.riding):
        return False
    return all(row in found for row in proposed.must_run)


def _without_proposals(scene: Scene, proposed: Scene) -> Scene:
    """Return the scene without the new trials, but with the new notes and the time of the next round."""
    tried = [trial for trial in scene.trials if trial.kind not in NOTES]
    noted = [trial for trial in proposed.trials if trial.kind in NOTES]
    return replace(scene, trials=(*tried, *noted), again_at_s=proposed.again_at_s)


def _as_seen(plan: Plan, scene: Scene, ordered: Snapshot, snapshot: Snapshot, server_row: IntArray) -> Plan:
    """Return the plan as changes to the snapshot of the round instead of changes to the scene."""
    before, after = seats_by_job(ordered.held), seats_by_job(plan.grants)
    were = {guest: host for guest, host in pairs_in_force(ordered).items() if ordered.jobs.running[guest]}
    changes_gpus = _changes_gpus(plan, ordered, were, before, after)
    told = {entry.job: entry for entry in plan.preemptions}
    kept, resized, stopped = [], [], []
    for row in [row for row in plan.order if ordered.jobs.running[row]]:
        change = _change(before.get(row, ()), after.get(row, ()), is_resized=row in plan.kept or row in plan.resized)
        if change == "kept" and row not in changes_gpus:
            kept.append(row)
        elif change == "resized":
            resized.append(row)
        else:
            stopped.append(
                told[row] if row in told else _preemption(row, ordered, moved=row in after, was_guest=row in were)
            )
    still = frozenset(kept)
    preemptions = Preemptions.of(
        [entry if entry.by_job not in still else replace(entry, by_job=NO_ROW) for entry in stopped]
    )
    grants = plan.grants.on_servers(server_row)
    digest = plan_digest(
        snapshot,
        grants=grants,
        order=plan.order,
        preemptions=preemptions,
        waiting=plan.waiting,
        riding=plan.riding,
    )
    return replace(
        plan,
        grants=grants,
        kept=still,
        resized=frozenset(resized),
        preemptions=preemptions,
        plan_hash=digest,
        trials=scene.trials,
        again_at_s=scene.again_at_s,
    )


def _changes_gpus(
    plan: Plan, ordered: Snapshot, were: Mapping[int, int], before: Mapping[int, Seats], after: Mapping[int, Seats]
) -> frozenset[int]:
    """Return the jobs that share other GPUs than they had, or no longer share, though maybe on the same servers."""

    def stays(row: int) -> bool:
        return bool(ordered.jobs.running[row]) and before.get(row) == after.get(row)

    ends = {guest for guest, host in were.items() if plan.riding.get(guest) != host and stays(host)}
    begins = {guest for guest, host in plan.riding.items() if were.get(guest) != host and stays(host)}
    return frozenset(ends | begins)


def pairs_in_force(snapshot: Snapshot) -> dict[int, int]:
    """Return guests and their hosts, by row, from the trials of the snapshot."""
    row_of = rows_by_id(snapshot)
    pairs = {}
    for trial in snapshot.trials:
        if trial.kind is TrialKind.PACK and trial.verdict is not Verdict.UNDONE:
            host, guest = trial.jobs
            if host in row_of and guest in row_of:
                pairs[row_of[guest]] = row_of[host]
    return pairs


def _change(before: Seats, after: Seats, *, is_resized: bool) -> str:
    if before == after:
        return "kept" if after else "stopped"  # its server is gone, and there is no other for it
    sizes = sum(gpus for _, gpus in before), sum(gpus for _, gpus in after)
    return "resized" if is_resized and after and sizes[0] != sizes[1] else "stopped"


def _preemption(row: int, ordered: Snapshot, *, moved: bool, was_guest: bool) -> Preemption:
    jobs = ordered.jobs
    evidence: Evidence = {"num_gpus": int(jobs.num_gpus[row]), "unsaved_s": float(jobs.unsaved_s[row])}
    rate = float(jobs.rate[row])
    if rate == rate:  # known
        evidence["rate"] = rate
    rule = PreemptRule.MOVED if moved and not was_guest else PreemptRule.UNPACKED
    return Preemption(job=row, rule=rule, by_job=NO_ROW, evidence=evidence)


def rows_by_id(snapshot: Snapshot) -> Mapping[int, int]:
    """Return the row of every job by its id."""
    return {job_id: row for row, job_id in enumerate(snapshot.jobs.job_id.tolist())}


def free_gpus(snapshot: Snapshot, grants: Placements, guests: Collection[int]) -> list[int]:
    """Return the GPUs of each server that no job holds or is about to leave; guests share those of their hosts."""
    own = ~np.isin(grants.job, list(guests))
    size = len(snapshot.servers)
    held = np.bincount(grants.server[own], weights=grants.num_gpus[own], minlength=size)
    leaving = np.bincount(snapshot.releasing.server, weights=snapshot.releasing.num_gpus, minlength=size)
    return [int(gpus) for gpus in (snapshot.servers.num_gpus - held - leaving).tolist()]


def without_seats(snapshot: Snapshot, rows: IntArray) -> Snapshot:
    """Return the snapshot in which these jobs wait."""
    jobs, held = snapshot.jobs, snapshot.held
    gone = np.zeros(len(jobs), dtype=np.bool_)
    gone[rows] = True
    return replace(
        snapshot,
        jobs=replace(
            jobs,
            running=jobs.running & ~gone,
            held_at_s=np.where(gone, np.inf, jobs.held_at_s),
            unsaved_s=np.where(gone, 0.0, jobs.unsaved_s),
        ),
        held=held.at(~gone[held.job]),
    )


def with_seats(snapshot: Snapshot, seats: Mapping[int, Seats]) -> Snapshot:
    """Return the snapshot in which these running jobs sit elsewhere, with the cores and bytes that go with the GPUs."""
    stay, moved = snapshot.held.at(~np.isin(snapshot.held.job, list(seats))), placed(seats, snapshot.servers)
    both = Placements(
        job=np.concatenate((stay.job, moved.job)),
        server=np.concatenate((stay.server, moved.server)),
        num_gpus=np.concatenate((stay.num_gpus, moved.num_gpus)),
        cpus=np.concatenate((stay.cpus, moved.cpus)),
        memory_bytes=np.concatenate((stay.memory_bytes, moved.memory_bytes)),
    )
    return replace(snapshot, held=both.at(seat_order(both.job, both.server)))
