"""Past rounds and what they decided, as far as the reader may see.

Every signed-in user sees each round with its counts. Decisions about jobs of queues that the reader may not see are
listed without names.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import cast

from django.db.models import QuerySet

from scheduler.core.model.errors import NotFound
from scheduler.models import Job, Round, Server
from scheduler.selectors.cluster.rows import (
    DecidedJob,
    GrantedSeat,
    GrantRow,
    OrderRow,
    PreemptionRow,
    RoundDetailRow,
    RoundRow,
    TrialRow,
    WaitingRow,
)
from scheduler.selectors.evidence import Names, job_shown, names_of
from scheduler.selectors.rows import Json
from scheduler.selectors.times import iso
from scheduler.selectors.visibility import Access, Actor, access_of

SHOWN_MOST = 500  # decisions of each kind; no user reads a page of more


def round_list(user: Actor) -> QuerySet[Round]:
    """Return rounds, newest first, without their decisions; the caller slices it."""
    rounds = Round.objects.defer("decisions").order_by("-number")
    return rounds if user.is_authenticated and user.is_active else rounds.none()


def round_row(round_: Round) -> RoundRow:
    """Return one round without its decisions."""
    return {
        "number": round_.number,
        "epoch": round_.epoch,
        "trigger": round_.trigger,
        "started_at": iso(round_.started_at),
        "duration_s": round_.duration_s,
        "policy": round_.policy,
        "policy_options": round_.policy_options,
        "locality": round_.locality,
        "mechanism": round_.mechanism,
        "num_jobs": round_.num_jobs,
        "num_running": round_.num_running,
        "num_launched": round_.num_launched,
        "num_preempted": round_.num_preempted,
        "num_waiting": round_.num_waiting,
        "num_gpus": round_.num_gpus,
        "num_gpus_granted": round_.num_gpus_granted,
        "snapshot_hash": round_.snapshot_hash,
        "plan_hash": round_.plan_hash,
        "error": round_.error,
    }


def round_detail(user: Actor, number: int) -> RoundDetailRow:
    """Return one round with its grants, preemptions, waiting jobs, order and trials.

    Raises:
        NotFound: There is no such round, or ``user`` is not signed in.
    """
    is_reader = user.is_authenticated and user.is_active
    round_ = Round.objects.filter(pk=number).first() if is_reader and 0 <= number < 2**63 else None
    if round_ is None:
        raise NotFound(f"There is no round {number}.")
    decided = _decisions(round_)
    parts = {kind: list(decided.get(kind, []))[:SHOWN_MOST] for kind in ("preemptions", "waiting")}
    by_state: dict[str, list[Json]] = defaultdict(list)
    for entry in decided.get("grants", []):
        by_state[entry["state"]].append(entry)
    parts["grants"] = [entry for entries in by_state.values() for entry in entries[:SHOWN_MOST]]
    trials = list(round_.decisions.get("trials", []))[:SHOWN_MOST]
    keys = list(decided.get("keys", []))[:SHOWN_MOST]
    reader = _Reader(access_of(user), parts, {*(n for entry in trials for n in entry["jobs"]), *(n for n, _ in keys)})
    return {
        **round_row(round_),
        "same_as": round_.decisions.get("same_as"),
        "grants": [reader.grant(entry) for entry in parts["grants"]],
        "preemptions": [reader.preemption(entry) for entry in parts["preemptions"]],
        "waiting": [reader.waiting(entry) for entry in parts["waiting"]],
        "waiting_by_reason": decided.get("waiting_by_reason", {}),
        "grants_by_state": {state: len(entries) for state, entries in by_state.items()},
        "order": [reader.place(number, key) for number, key in keys],
        "trials": [shown for entry in trials if (shown := reader.trial(entry)) is not None],
        "is_shortened": any(len(decided.get(kind, [])) > len(shown) for kind, shown in parts.items()),
    }


def _decisions(round_: Round) -> Json:
    """Return what the round decided; equal decisions are kept once, with the first round that took them."""
    same_as = round_.decisions.get("same_as")
    if same_as is None:
        return dict(round_.decisions)
    kept = Round.objects.filter(pk=same_as).values_list("decisions", flat=True).first()
    return dict(kept or {})


class _Reader:
    """Turns numbers into names for one reader."""

    def __init__(self, access: Access, parts: Mapping[str, list[Json]], others: set[int]) -> None:
        self._access = access
        numbers = {entry["job"] for entries in parts.values() for entry in entries}
        numbers |= {entry["by_job"] for entry in parts["preemptions"] if entry.get("by_job") is not None}
        numbers |= others
        self._jobs = _jobs(numbers)
        self._servers = dict(Server.with_removed.values_list("number", "name"))
        self._names: Names = names_of(access)

    def job(self, number: int) -> DecidedJob:
        """Return a job as the reader may see it."""
        return job_shown(self._jobs.get(number), self._access)

    def grant(self, entry: Json) -> GrantRow:
        """Return one grant; every user may see the servers."""
        # As ``live.rounds.decisions`` stored them, with the names of the servers in place of their numbers.
        seats = [
            cast(GrantedSeat, {**seat, "server": self._servers.get(seat["server"], "")}) for seat in entry["seats"]
        ]
        return {"job": self.job(entry["job"]), "state": entry["state"], "seats": seats}

    def preemption(self, entry: Json) -> PreemptionRow:
        """Return one preemption; the evidence only of a job that the reader may see."""
        return {
            "job": self.job(entry["job"]),
            "rule": entry["rule"],
            "by_job": None if entry["by_job"] is None else self.job(entry["by_job"]),
            "evidence": self._evidence(entry),
        }

    def waiting(self, entry: Json) -> WaitingRow:
        """Return one job that waits and why; the reason only of a job that the reader may see."""
        is_seen = self._is_seen(entry["job"])
        return {
            "job": self.job(entry["job"]),
            "position": entry["position"],
            "reason": entry["reason"] if is_seen else "",
            "evidence": self._evidence(entry),
        }

    def place(self, number: int, key: float | str) -> OrderRow:
        """Return one place in the order of the policy; the key only of a job that the reader may see."""
        return {"job": self.job(number), "key": str(key) if self._is_seen(number) else None}

    def trial(self, entry: Json) -> TrialRow | None:
        """Return one change that introspection tried or judged; None when one of its jobs may not be seen."""
        if not all(self._is_seen(number) for number in entry["jobs"]):
            return None
        # As ``live.rounds.trials`` stored it, with the jobs in place of their numbers.
        return cast(TrialRow, {**entry, "jobs": [self.job(number) for number in entry["jobs"]]})

    def _is_seen(self, number: int) -> bool:
        job = self._jobs.get(number)
        return job is not None and self._access.sees(job.queue_id)

    def _evidence(self, entry: Json) -> Json:
        if not self._is_seen(entry["job"]):
            return {}
        return self._names.named(entry["evidence"], own_queue=self._jobs[entry["job"]].queue)


def _jobs(numbers: Iterable[int]) -> dict[int, Job]:
    found = (
        Job.objects.filter(number__in=sorted(numbers))
        .select_related("queue")
        .only("number", "name", "queue__name", "queue__color_slot")
    )
    return {job.number: job for job in found}
