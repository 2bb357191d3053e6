"""The workload of the comparison: what is trained, for how many steps, and when each job arrives."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass

from scheduler.simulator.draws import Draws

# Command of each kind of job, all but the number of its steps.
Kinds = Mapping[str, tuple[str, ...]]
# Seconds that a job waits for each mini-batch, about twice as long as it computes.
READ_S = {"lstm": 0.012, "m5": 0.012, "mobilenet": 0.02, "resnet": 0.06, "transformer": 0.02}
# Sizes that take a few milliseconds a step on one core.
SIZES: dict[str, tuple[str, ...]] = {
    "lstm": ("--batch", "16", "--width", "32", "--rows", "256"),
    "m5": ("--batch", "8", "--width", "8", "--rows", "128"),
    "mobilenet": ("--batch", "8", "--width", "8", "--rows", "128"),
    "resnet": ("--batch", "8", "--width", "8", "--rows", "128"),
    "transformer": ("--batch", "8", "--width", "32", "--rows", "256"),
}
KINDS: Kinds = {
    kind: (sys.executable, "-m", "benchmarks.fidelity.reading", kind, str(READ_S[kind]), *sizes, "--steps")
    for kind, sizes in SIZES.items()
}
# Training time of a job, drawn log-evenly between these, seconds.
SHORTEST_S, LONGEST_S = 4.0, 24.0
PRIORITIES = (20, 50, 80)
# How many have each. Few are urgent: a stop takes a second or two that the replay does not know, a tenth of such a job.
PRIORITY_SHARES = (2.0, 7.0, 1.0)
LOAD = 1.3
# So many are there from the start, for each slot: beside an idle slot a job is faster than the replay knows.
FIRST_PER_SLOT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One job.

    Attributes:
        kind: What it trains.
        arrival_s: Submission after the start, seconds.
        training_s: Time that its steps should take, seconds.
        priority: As its owner sets it.
    """

    kind: str
    arrival_s: float
    training_s: float
    priority: int


def planned_jobs(num_jobs: int, kinds: Kinds, *, num_slots: int, start_s: float, seed: int = 1) -> list[Planned]:
    """Return jobs that come ``LOAD`` times as fast as the slots can train them.

    Args:
        num_jobs: How many.
        kinds: What they train.
        num_slots: Slots that there are.
        start_s: What a start costs beside steps.
        seed: Everything follows from it.
    """
    lengths = Draws(seed, "lengths").uniform(num_jobs)
    training_s = SHORTEST_S * (LONGEST_S / SHORTEST_S) ** lengths
    gap_s = float(training_s.mean() + start_s) / (num_slots * LOAD)
    gaps_s = Draws(seed, "arrivals").exponential(num_jobs) * gap_s
    gaps_s[: FIRST_PER_SLOT * num_slots] = 0.0
    arrival_s = gaps_s.cumsum()
    names = [*kinds]
    kind = Draws(seed, "kinds").choice(num_jobs, [1.0] * len(names))
    priority = Draws(seed, "priorities").choice(num_jobs, PRIORITY_SHARES)
    rows = zip(kind.tolist(), arrival_s.tolist(), training_s.tolist(), priority.tolist(), strict=True)
    return [
        Planned(kind=names[at], arrival_s=arrival, training_s=length, priority=PRIORITIES[rank])
        for at, arrival, length, rank in rows
    ]
