"""The workload of the comparison: what is trained, for how many steps, and when each job arrives."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from scheduler.simulator.draws import Draws

# Command of each kind of job, all but the number of its steps.
Kinds = Mapping[str, tuple[str, ...]]
# Seconds of a step.
STEP_S = {"steps-50ms": 0.05, "steps-100ms": 0.1}
KINDS: Kinds = {kind: (sys.executable, "-S", "paced.py", str(step_s)) for kind, step_s in STEP_S.items()}
# Sent with each job: jobs cannot open what lies in this folder.
FILES = {"paced.py": Path(__file__).with_name("paced.py").read_text(encoding="utf-8")}
# Training time of short and of long jobs, drawn log-evenly between these, seconds. None ends just after the limit of a
# level of ``las``: whether it is stopped a moment before decides over more than a minute, otherwise in each run.
LENGTHS_S = ((4.0, 8.0), (14.0, 24.0))
PRIORITIES = (20, 50, 80)
# How many have each.
PRIORITY_SHARES = (2.0, 5.0, 3.0)
# So fast that a line is there nearly all the time: into each gap of it goes whichever job is stronger by a moment.
LOAD = 2.0


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
    lengths, longs = Draws(seed, "lengths").uniform(num_jobs), Draws(seed, "longs").choice(num_jobs, [1.0, 1.0])
    shortest_s, longest_s = np.array(LENGTHS_S)[longs].T
    training_s = shortest_s * (longest_s / shortest_s) ** lengths
    gap_s = float(training_s.mean() + start_s) / (num_slots * LOAD)
    arrival_s = (Draws(seed, "arrivals").exponential(num_jobs) * gap_s).cumsum()
    names = [*kinds]
    kind = Draws(seed, "kinds").choice(num_jobs, [1.0] * len(names))
    priority = Draws(seed, "priorities").choice(num_jobs, PRIORITY_SHARES)
    rows = zip(kind.tolist(), arrival_s.tolist(), training_s.tolist(), priority.tolist(), strict=True)
    return [
        Planned(kind=names[at], arrival_s=arrival, training_s=length, priority=PRIORITIES[rank])
        for at, arrival, length, rank in rows
    ]
