"""Measures on the product itself what a replay has to know: speed of each kind, what a start and what a stop cost."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, median
from typing import Any

from benchmarks.fidelity.live import run_jobs, seconds
from benchmarks.fidelity.workload import KINDS, Planned, command
from tests.e2e.stack import Client, wait_for

FEW, MORE = 40, 160
TRAINING_S = 12.0
REPEATS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What the replay is given.

    Attributes:
        steps_per_s: By kind, while the other slot trains too.
        start_s: By kind, seconds of a lease that are not steps: process, imports, model, data, last checkpoint, end.
        stop_s: Seconds from the request to stop until the slot is free.
    """

    steps_per_s: Mapping[str, float]
    start_s: Mapping[str, float]
    stop_s: float

    def steps(self, kind: str, training_s: float) -> int:
        """Return how many steps take so long."""
        return max(1, round(training_s * self.steps_per_s[kind]))

    def run_s(self, kind: str, steps: int) -> float:
        """Return how long a lease lasts that trains so many steps."""
        return self.start_s[kind] + steps / self.steps_per_s[kind]


def lease_s(job: Mapping[str, Any]) -> float:
    """Return the seconds that the only attempt of a job held its slot."""
    (attempt,) = job["attempts"]
    return seconds(attempt["ended_at"]) - seconds(attempt["created_at"])


def calibrate(client: Client) -> Measured:
    """Train every kind for a few steps and for many; the difference is steps, the rest is the start."""
    rough = _slopes(client, dict.fromkeys(KINDS, FEW), dict.fromkeys(KINDS, MORE), repeats=1)
    more = {kind: FEW + max(MORE, round(TRAINING_S * rate)) for kind, (rate, _) in rough.items()}
    found = _slopes(client, dict.fromkeys(KINDS, FEW), more, repeats=REPEATS)
    return Measured(
        steps_per_s={kind: rate for kind, (rate, _) in found.items()},
        start_s={kind: start_s for kind, (_, start_s) in found.items()},
        stop_s=_stop_s(client, {kind: 10 * steps for kind, steps in more.items()}),
    )


def _slopes(
    client: Client, few: Mapping[str, int], more: Mapping[str, int], *, repeats: int
) -> dict[str, tuple[float, float]]:
    """Return (steps a second, seconds of the start) by kind."""
    order = [(kind, steps[kind]) for _ in range(repeats) for steps in (more, few) for kind in KINDS]
    jobs = [Planned(kind=kind, arrival_s=0.0, training_s=TRAINING_S) for kind, _ in order]
    took_s: dict[tuple[str, int], list[float]] = {}
    for key, job in zip(order, run_jobs(client, jobs, [steps for _, steps in order]), strict=True):
        took_s.setdefault(key, []).append(lease_s(job))
    found = {}
    for kind in KINDS:
        few_s, more_s = (median(took_s[kind, steps[kind]]) for steps in (few, more))
        rate = (more[kind] - few[kind]) / max(0.05, more_s - few_s)
        found[kind] = rate, max(0.0, few_s - few[kind] / rate)
    return found


def _stop_s(client: Client, steps: Mapping[str, int]) -> float:
    """Return the mean time that a training job takes to leave its slot when asked."""
    return mean(_stopped_s(client, kind, steps[kind]) for kind in KINDS)


def _stopped_s(client: Client, kind: str, steps: int) -> float:
    queue = next(row["name"] for row in client.get("/api/v1/queues")["results"] if row["is_leaf"])
    key = client.submit(
        name=f"stop-{kind}",
        queue=queue,
        command=command(kind, steps),
        resources={"gpus": 1, "cpus": 1, "memory": "1GiB"},
    )
    wait_for("a step", lambda: client.job(key)["step"], within_s=60)
    time.sleep(1.0)
    assert client.call("POST", f"/api/v1/jobs/{key}/suspend").status in (200, 202)
    client.wait_state(key, "suspended")
    attempts: Sequence[Mapping[str, Any]] = client.get(f"/api/v1/jobs/{key}/attempts")["results"]
    assert client.call("POST", f"/api/v1/jobs/{key}/cancel").status in (200, 202)
    return seconds(attempts[-1]["ended_at"]) - seconds(attempts[-1]["stop_requested_at"])
