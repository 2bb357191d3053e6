"""Preview of a job that is not submitted yet: where and when it starts, and which jobs would make room for it.

Nothing is stored. ``plan_round`` gives the answer on the present cluster; when a job would wait, its start time comes
from simulated futures, as in ``start_times.estimates``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from scheduler.core.model.errors import FieldError
from scheduler.core.model.holds import After
from scheduler.core.model.plan import Evidence, Preemption, WaitReason
from scheduler.core.model.tables import JobTable, Snapshot
from scheduler.core.operations.place_in_line import line_of
from scheduler.core.operations.reasons import sentence
from scheduler.core.operations.start_calibration import bound_s
from scheduler.core.operations.time_left import moment_after
from scheduler.core.round.hypothetical import JobDecision, PlannedSeat, could_run, decision_of, most_gpus, with_job
from scheduler.core.spec.spec import JobSpec
from scheduler.models import Job, Server
from scheduler.selectors.cluster.drained import drained_evidence, drained_now
from scheduler.selectors.evidence import Names, job_shown, names_of
from scheduler.selectors.jobs.estimates import WHY_UNKNOWN
from scheduler.selectors.jobs.many.dependencies import open_now
from scheduler.selectors.jobs.reason_rows import JobPreview, PlannedSeatRow, PreemptedJob, SimulatedStart, SizedJob
from scheduler.selectors.rows import Json
from scheduler.selectors.times import iso
from scheduler.selectors.visibility import Access, access_of
from scheduler.services.jobs.check import CheckedSpec
from scheduler.services.jobs.profiles import profile_known
from scheduler.whatif.one_job.present import Present, SimulatedStarts, Values, new_values, present_read, simulate_starts
from scheduler.whatif.start_times.estimates import CPU_S, FUTURES, HORIZON_S, MOST_CPU_S
from scheduler.whatif.start_times.late_bounds import stretch_now

_ESTIMATE: SimulatedStart = {
    "known": False,
    "p50_at": None,
    "simulated_p90_at": None,
    "p90_at": None,
    "futures": 0,
    "reason": "",
    "sentence": "",
}


MustEnd = tuple[tuple[int, ...], Evidence]  # numbers of the jobs that have to end first, and what is told of them


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """The question: the cluster, and the job that would be its last row; None where that waits for no others."""

    present: Present
    checked: CheckedSpec
    profile_pk: int | None
    names: Names
    waits: MustEnd | None

    @property
    def row(self) -> int:
        """Return the row of the job."""
        return len(self.present.tables.jobs)

    @property
    def gpus(self) -> int:
        """Return the GPUs that the job asks for."""
        return self.checked.spec.resources.gpus

    @property
    def is_smoke_due(self) -> bool:
        """Return whether its first run is a smoke run on one GPU."""
        return self.present.cluster.smoke_run_s > 0 and self.gpus > 1

    def tables(self) -> Snapshot:
        """Return the cluster with the job as its next round would find it."""
        tables = with_job(self.present.tables, self.present.one(self._values(self.checked.spec)))
        if self.waits is None:
            return tables
        after = After(jobs=(int(tables.jobs.job_id[self.row]),), on=self.waits[0])
        return replace(tables, after=(*tables.after, after))

    def whole(self, gpus: int | None = None) -> JobTable:
        """Return the job with all its GPUs, or with so many."""
        spec = self.checked.spec
        if gpus is not None:
            spec = replace(spec, resources=replace(spec.resources, gpus=gpus, min_gpus=None, max_gpus=None))
        return self.present.one(self._values(spec) | {"smoke_due": False})

    def _values(self, spec: JobSpec) -> Values:
        return new_values(
            spec,
            queue_pk=self.checked.queue.pk,
            owner_pk=self.checked.owner.pk,
            profile_pk=self.profile_pk,
            present=self.present,
        )


def job_preview(*, checked: CheckedSpec, too_large: Sequence[FieldError], at: datetime) -> JobPreview:
    """Return what the next round would do with a job.

    Args:
        checked: The spec, its owner and its queue.
        too_large: What ``job_check_dry`` found that no server could give.
        at: Now.
    """
    present = present_read(at)
    profile = checked.profile or profile_known(checked.spec)
    names = names_of(access_of(checked.owner))
    asked = _Asked(
        present=present,
        checked=checked,
        profile_pk=profile.pk if profile else None,
        names=names,
        waits=open_now(checked.spec.depends_on),
    )
    return _answer(asked, too_large)


def _answer(asked: _Asked, too_large: Sequence[FieldError]) -> JobPreview:
    present = asked.present
    if not len(present.tables.servers):
        waits = _waits(asked, WaitReason.NO_SERVER, drained_evidence(drained_now()))
        return {**waits, "feasible": None, "starts": "unknown"}
    alone = with_job(present.tables, asked.whole())
    if too_large or not could_run(alone, present.config, asked.row):
        return _never(asked, alone, too_large)
    if present.cluster.paused:
        waits = _waits(asked, WaitReason.POLICY_PAUSED, {})
        return {**waits, "starts": "unknown", "estimate": estimate_told("paused")}
    tables = asked.tables()
    said = decision_of(tables, present.config, asked.row, without=present.tables)
    if said.starts:
        return _starts(asked, said)
    line = line_of(said.plan)
    _, place, (reason, found) = next(entry for entry in line if entry.job == asked.row)
    told = asked.waits[1] if asked.waits and reason is WaitReason.DEPENDENCY else {}
    evidence = asked.names.named({**found, **told}, own_queue=asked.checked.queue)
    if place and reason is WaitReason.BEHIND_POLICY_ORDER:
        evidence["ahead_jobs"] = place - 1
    owner_pk = asked.checked.owner.pk
    seen = simulate_starts(
        present, tables, asked.row, owner_pk=owner_pk, futures=FUTURES, cpu_s=CPU_S, most_cpu_s=MOST_CPU_S
    )
    return {
        **_waits(asked, reason, evidence),
        "position": place,
        "waiting_jobs": sum(entry.place is not None for entry in line),
        "estimate": estimate_looked(seen, present.at),
    }


def _blank(asked: _Asked) -> JobPreview:
    """Return the answer that all others fill in."""
    return {
        "feasible": True,
        "starts": "later",
        "sentence": "",
        "largest_gpus": None,
        "round": asked.present.live.round_number,
        "reason": "",
        "evidence": {},
        "position": None,
        "waiting_jobs": None,
        "placement": [],
        "preempts": [],
        "estimate": None,
    }


def _never(asked: _Asked, alone: Snapshot, too_large: Sequence[FieldError]) -> JobPreview:
    largest = most_gpus(alone, asked.present.config, asked.row, below=asked.gpus, sized=asked.whole)
    text = " ".join(error.detail for error in too_large)
    if not text:
        name = asked.checked.queue.name
        text = f"A job of {name} with {_gpus(asked.gpus)} would never start, even if all else were empty."
    num_servers = asked.checked.spec.resources.max_servers
    on = f" on {'one server' if num_servers == 1 else f'{num_servers} servers'}" if too_large else ""
    text += f" The largest that can start{on} has {_gpus(largest)}." if largest else ""
    return {**_blank(asked), "feasible": False, "starts": "never", "sentence": text, "largest_gpus": largest or None}


def _starts(asked: _Asked, said: JobDecision) -> JobPreview:
    now = iso(asked.present.at)
    placement = [_placed(asked.present, seat) for seat in said.seats]
    preempts = [_preempted(asked, preemption) for preemption in said.preemptions]
    return {
        **_blank(asked),
        "starts": "after_others_leave" if preempts or said.follows_leavers else "now",
        "sentence": _starts_words(
            asked, placement, made_room_words(len(preempts), follows_leavers=said.follows_leavers)
        ),
        "placement": placement,
        "preempts": preempts,
        "estimate": {**_ESTIMATE, "known": True, "p50_at": now, "simulated_p90_at": now, "p90_at": now},
    }


def made_room_words(num_preempted: int, *, follows_leavers: bool) -> str:
    """Return the rest of the sentence that tells when a job starts: after which others; empty for at once."""
    if num_preempted:
        return f", once {num_preempted} running {'job has' if num_preempted == 1 else 'jobs have'} made room"
    return ", once running jobs that leave in any case have made room" if follows_leavers else ""


def _starts_words(asked: _Asked, placement: Sequence[PlannedSeatRow], others: str) -> str:
    where = " and ".join(f"{_gpus(seat['num_gpus'])} of {seat['server']}" for seat in placement)
    text = f"It starts with the next round on {where}{others}"
    smoke = f" That is a smoke run; its {_gpus(asked.gpus)} follow when it has passed." if asked.is_smoke_due else ""
    return f"{text}.{smoke}"


def _placed(present: Present, seat: PlannedSeat) -> PlannedSeatRow:
    server_pk = present.live.server_pks[seat.server]
    return {
        "server_id": server_pk,
        "server": Server.objects.values_list("name", flat=True).get(pk=server_pk),
        "num_gpus": seat.num_gpus,
        "cpus": round(seat.cpus, 3),
        "memory_bytes": int(seat.memory_bytes),
    }


def _preempted(asked: _Asked, preemption: Preemption) -> PreemptedJob:
    """Return a job that would be preempted; only its size where the user may not see it."""
    pk = asked.present.live.job_pks[preemption.job]
    return {**job_named(pk, access_of(asked.checked.owner)), "rule": preemption.rule.value}


def job_named(job_pk: str, access: Access) -> SizedJob:
    """Return a job by name where the user may see it, else by its size alone."""
    job = Job.objects.select_related("queue").defer("spec").get(pk=job_pk)
    return {**job_shown(job, access), "num_gpus": job.num_gpus}


def _waits(asked: _Asked, reason: WaitReason, evidence: Json) -> JobPreview:
    return {
        **_blank(asked),
        "reason": reason.value,
        "evidence": evidence,
        "sentence": sentence(reason, evidence),
    }


def estimate_looked(seen: SimulatedStarts, at: datetime) -> SimulatedStart:
    """Return when a job starts, in the shape of stored estimates."""
    if seen.reason:
        return {**estimate_told(seen.reason), "futures": len(seen.starts_s)}
    simulated_s = seen.after_s(0.9)
    told_s = bound_s(simulated_s, stretch_now(), horizon_s=HORIZON_S)
    return {
        **_ESTIMATE,
        "known": True,
        "futures": len(seen.starts_s),
        "p50_at": iso(moment_after(at, seen.after_s(0.5))),
        "simulated_p90_at": iso(moment_after(at, simulated_s)),
        "p90_at": iso(moment_after(at, told_s)),
    }


def estimate_told(reason: str) -> SimulatedStart:
    """Return an estimate without times, and why nothing is known."""
    return {**_ESTIMATE, "reason": reason, "sentence": WHY_UNKNOWN[reason]}


def _gpus(count: int) -> str:
    return f"{count} GPU" if count == 1 else f"{count} GPUs"
