"""Measure on the real product what a replay needs: the speed of each kind of job, the cost of a start and of a stop."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, median
from typing import Any

from benchmarks.fidelity.live import LOOK_EVERY_S, Field, run_jobs, seconds, submit
from benchmarks.fidelity.workload import PRIORITIES, Planned

Job = Mapping[str, Any]  # as REST tells it, with its attempts
# Of a first, short job of each kind, which tells how many steps the measured ones take.
ROUGH_STEPS = 50
FEW_S, MORE_S, REPEATS = 1.0, 12.0, 2
# Of a job that is stopped once while it trains: as long as the measured ones, so that as much trains beside it.
STOPPED_S, STOP_AFTER_S = MORE_S, 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What the replay is given.

    Attributes:
        steps_per_s: By kind, while the other slot trains too.
        start_s: By kind, seconds of a slot that are not steps: the next round, process, imports, model, data, last
            checkpoint, evaluation, end.
        restart_s: Seconds of a slot that a stop and a new start take.
    """

    steps_per_s: Mapping[str, float]
    start_s: Mapping[str, float]
    restart_s: float

    def steps(self, kind: str, training_s: float) -> int:
        """Return how many steps take so long."""
        return max(1, round(training_s * self.steps_per_s[kind]))

    def run_s(self, kind: str, steps: int) -> float:
        """Return how long a job that trains so many steps keeps its slot from the next one."""
        return self.start_s[kind] + steps / self.steps_per_s[kind]

    def slowed(self, times: float) -> "Measured":
        """Return the same where everything takes so many times as long."""
        return Measured(
            steps_per_s={kind: rate / times for kind, rate in self.steps_per_s.items()},
            start_s={kind: start_s * times for kind, start_s in self.start_s.items()},
            restart_s=self.restart_s * times,
        )


def calibrate(field: Field) -> Measured:
    """Train every kind for few steps and for many; the difference is steps, the rest is the start."""
    rough = {kind: job["steps_per_s"] for kind, job in _trained(field, [(kind, ROUGH_STEPS) for kind in field.kinds])}
    few = {kind: max(1, round(FEW_S * rate)) for kind, rate in rough.items()}
    more = {kind: max(2, round(MORE_S * rate)) for kind, rate in rough.items()}
    wanted = [(kind, steps[kind]) for _ in range(REPEATS) for steps in (more, few) for kind in field.kinds]
    found = _trained(field, wanted)
    gap_s = _gap_s([job for _, job in found], num_slots=field.num_slots)
    took_s: dict[tuple[str, int], list[float]] = {}
    for key, (_, job) in zip(wanted, found, strict=True):
        took_s.setdefault(key, []).append(held_s(job))
    steps_per_s, start_s = {}, {}
    for kind in field.kinds:
        few_s, more_s = mean(took_s[kind, few[kind]]), mean(took_s[kind, more[kind]])
        steps_per_s[kind] = (more[kind] - few[kind]) / (more_s - few_s)
        start_s[kind] = few_s - few[kind] / steps_per_s[kind] + gap_s
    undisturbed = Measured(steps_per_s=steps_per_s, start_s=start_s, restart_s=0.0)
    return Measured(steps_per_s=steps_per_s, start_s=start_s, restart_s=_restart_s(field, undisturbed, gap_s))


def slowness(measured: Measured, planned: Sequence[Planned], steps: Sequence[int], jobs: Sequence[Job]) -> float:
    """Return how many times as long jobs took as was measured before, all together; of jobs that were not stopped."""
    rows = [row for row in zip(planned, steps, jobs, strict=True) if len(row[2]["attempts"]) == 1]
    return sum(held_s(job) for _, _, job in rows) / sum(measured.run_s(plan.kind, count) for plan, count, _ in rows)


def held_s(job: Job) -> float:
    """Return the seconds that the attempts of a job held its slot."""
    return sum(seconds(attempt["ended_at"]) - seconds(attempt["created_at"]) for attempt in job["attempts"])


def _trained(field: Field, wanted: Sequence[tuple[str, int]]) -> list[tuple[str, dict[str, Any]]]:
    """Train so many steps of each kind, all submitted at once; return the jobs beside their kinds."""
    planned = [Planned(kind=kind, arrival_s=0.0, training_s=0.0, priority=PRIORITIES[0]) for kind, _ in wanted]
    jobs = run_jobs(field, planned, [steps for _, steps in wanted])
    return [(kind, job) for (kind, _), job in zip(wanted, jobs, strict=True)]


def _gap_s(jobs: Sequence[Mapping[str, Any]], *, num_slots: int) -> float:
    """Return how long a slot is free between two jobs while others wait."""
    attempts = [attempt for job in jobs for attempt in job["attempts"]]
    begun = sorted(seconds(attempt["created_at"]) for attempt in attempts)[num_slots:]
    ended = sorted(seconds(attempt["ended_at"]) for attempt in attempts)
    return median(begin_s - end_s for begin_s, end_s in zip(begun, ended[: len(begun)], strict=True))


def _restart_s(field: Field, measured: Measured, gap_s: float) -> float:
    """Return what it costs a job to be stopped once and to go on later, as seconds of a slot; mean over the kinds."""
    client, steps = field.client, {kind: measured.steps(kind, STOPPED_S) for kind in field.kinds}
    kind_of = {submit(field, kind, count): kind for kind, count in steps.items()}
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
    extra = []
    for key, kind in kind_of.items():
        attempts = client.get(f"/api/v1/jobs/{key}/attempts")["results"]
        took_s = held_s({"attempts": attempts}) + gap_s * len(attempts)
        extra += [took_s - measured.run_s(kind, steps[kind])] if len(attempts) == 2 else []
    return mean(extra)
