"""Measure on the real product, before anything is compared, what a replay needs: the cost of a start and of a stop."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, median
from typing import Any

from benchmarks.fidelity.live import LOOK_EVERY_S, Field, run_jobs, seconds, submit
from benchmarks.fidelity.workload import PRIORITIES, STEP_S, Planned

Job = Mapping[str, Any]  # as REST tells it, with its attempts
# Jobs for each slot; those that begin together at the very first are left out.
PER_SLOT = 4
# Of different lengths, so that they end and begin one by one.
LENGTHS_S = (2.0, 2.6, 3.4, 4.4)
# Of a job that is stopped once while it trains.
STOPPED_S, STOP_AFTER_S = 6.0, 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What the replay is given, seconds.

    Attributes:
        start_s: Of a slot, that are not steps: the next round, process, imports, evaluation, end.
        leave_s: From the decision to stop a job until its slot is free.
        restart_s: Of a slot, without steps, when a job that was stopped goes on.
    """

    start_s: float
    leave_s: float
    restart_s: float


def steps_of(training_s: float, step_s: float) -> int:
    """Return how many steps take so long."""
    return max(1, round(training_s / step_s))


def calibrate(field: Field) -> Measured:
    """Run some jobs to their end, then stop each of some once and let it go on."""
    step_s = {kind: STEP_S[kind] for kind in field.kinds}
    planned = [
        Planned(kind=kind, arrival_s=0.0, training_s=LENGTHS_S[number % len(LENGTHS_S)], priority=PRIORITIES[0])
        for number, kind in enumerate(list(field.kinds) * (PER_SLOT * field.num_slots // len(field.kinds)))
    ]
    counts = [steps_of(plan.training_s, step_s[plan.kind]) for plan in planned]
    jobs = run_jobs(field, planned, counts)
    gap_s = _gap_s(jobs, num_slots=field.num_slots)
    trained = [count * step_s[plan.kind] for plan, count in zip(planned, counts, strict=True)]
    later = sorted(zip(jobs, trained, strict=True), key=lambda one: seconds(one[0]["attempts"][0]["created_at"]))
    start_s = mean(held_s(job) - trained_s for job, trained_s in later[field.num_slots :]) + gap_s
    leaves_s, agains_s = [], []
    for job, trained_s in _stopped(field, step_s):
        first, again = job["attempts"]
        leave_s = seconds(first["ended_at"]) - seconds(first["stop_requested_at"])
        leaves_s.append(leave_s + gap_s)
        agains_s.append(held_s({"attempts": [first, again]}) - trained_s - leave_s + 2 * gap_s - start_s)
    return Measured(start_s=start_s, leave_s=mean(leaves_s), restart_s=mean(agains_s))


def held_s(job: Job) -> float:
    """Return the seconds that the attempts of a job held its slot."""
    return sum(seconds(attempt["ended_at"]) - seconds(attempt["created_at"]) for attempt in job["attempts"])


def _gap_s(jobs: Sequence[Job], *, num_slots: int) -> float:
    """Return how long a slot is free between two jobs while others wait."""
    attempts = [attempt for job in jobs for attempt in job["attempts"]]
    begun = sorted(seconds(attempt["created_at"]) for attempt in attempts)[num_slots:]
    ended = sorted(seconds(attempt["ended_at"]) for attempt in attempts)
    return median(begin_s - end_s for begin_s, end_s in zip(begun, ended[: len(begun)], strict=True))


def _stopped(field: Field, step_s: Mapping[str, float]) -> list[tuple[dict[str, Any], float]]:
    """Stop a job in each slot once while it trains; return those of two attempts, each with how long it trained."""
    client, kinds = field.client, [*field.kinds]
    kind_of = {
        submit(field, kind, steps_of(STOPPED_S, step_s[kind])): kind
        for kind in (kinds[number % len(kinds)] for number in range(field.num_slots))
    }
    trains_since: dict[str, float] = {}
    stopped: set[str] = set()
    open_ids = set(kind_of)
    while open_ids:
        time.sleep(LOOK_EVERY_S)
        for key in sorted(open_ids):
            job, now_s = client.job(key), time.monotonic()
            if job["state"] == "completed":
                open_ids.remove(key)
            elif job["state"] == "suspended":
                assert client.call("POST", f"/api/v1/jobs/{key}/resume").status in (200, 202)
            elif key not in stopped and job["step"] and now_s - trains_since.setdefault(key, now_s) >= STOP_AFTER_S:
                stopped.add(key)
                assert client.call("POST", f"/api/v1/jobs/{key}/suspend").status in (200, 202)
    found = []
    for key, kind in kind_of.items():
        attempts = client.get(f"/api/v1/jobs/{key}/attempts")["results"]
        if len(attempts) == 2:
            attempts.sort(key=lambda attempt: attempt["number"])
            found.append(({"attempts": attempts}, steps_of(STOPPED_S, step_s[kind]) * step_s[kind]))
    return found
