"""The simulator compared with a real run: the same 40 jobs run by two agents, and replayed."""

import json
from dataclasses import asdict
from pathlib import Path
from statistics import mean

from benchmarks.fidelity.calibration import Job, calibrate, slowness
from benchmarks.fidelity.live import product, run_jobs, seconds, settings_set
from benchmarks.fidelity.replay import Outcome, lived, replayed
from benchmarks.fidelity.workload import Planned, planned_jobs
from benchmarks.reproduce.row import Row, against

TITLE = "Fidelity of the simulator"
SOURCE = (
    "Synergy's own simulator is 0.6 to 6 % off its cluster. Here the published column is what really happened: "
    "40 jobs that train five models on one CPU slot of each of two agents, and wait for data most of each step, as "
    "jobs with a GPU leave cores alone. Speeds and costs were measured before. A shared machine is not as fast in each "
    "minute, so one number goes from each policy's run into its replay: how many times as long its jobs held their "
    "slots, all together, as those measured. Policies by service received are left out: with levels near the lengths "
    "of the jobs, a second of one job decides over minutes of another."
)
JOBS = 40
DETAILS = Path("benchmarks/results/fidelity.json")
# Policy and its options.
ARMS: dict[str, tuple[str, dict[str, object]]] = {
    "FIFO": ("fifo", {}),
    "priorities, with preemption": ("priority", {"preemptive": True}),
}


def rows() -> list[Row]:
    """Return the figures; what they were computed from is kept in ``DETAILS``."""
    found: list[Row] = []
    with product() as field:
        before = calibrate(field)
        planned = planned_jobs(JOBS, field.kinds, num_slots=field.num_slots, start_s=mean(before.start_s.values()))
        steps = [before.steps(job.kind, job.training_s) for job in planned]
        details: dict[str, object] = {"measured": asdict(before)}
        for name, (policy, options) in ARMS.items():
            settings_set(field.client, policy, options)
            jobs = run_jobs(field, planned, steps)
            times = slowness(before, planned, steps, jobs)
            measured = before.slowed(times)
            ours = replayed(planned, steps, jobs, measured, policy, options, num_slots=field.num_slots)
            found += _figures(name, lived(jobs), ours, times)
            details[name] = {
                "slowness": times,
                "jobs": [_lived(*one) for one in zip(planned, steps, jobs, strict=True)],
                "really": asdict(lived(jobs)),
                "replayed": asdict(ours),
            }
    DETAILS.write_text(json.dumps(details, indent=1) + "\n", encoding="utf-8")
    return found


def _figures(name: str, real: Outcome, ours: Outcome, times: float) -> list[Row]:
    setting = f"{JOBS} jobs, two slots; held {times:.2f} times as long as measured before"
    note = f"preempted {real.preemptions} times, {ours.preemptions} in the replay"
    average_s, makespan_s = round(real.average_jct_s, 1), round(real.makespan_s, 1)
    return [
        against(f"{name}: average completion time", average_s, ours.average_jct_s, "s", setting=setting, note=note),
        against(f"{name}: makespan", makespan_s, ours.makespan_s, "s", setting=setting),
    ]


def _lived(plan: Planned, steps: int, job: Job) -> dict[str, object]:
    """Return what became of one job, times in POSIX seconds: begin and end of each attempt after each other."""
    times_s = [seconds(attempt[key]) for attempt in job["attempts"] for key in ("created_at", "ended_at")]
    return {
        "kind": plan.kind,
        "priority": plan.priority,
        "steps": steps,
        "submitted_at_s": round(seconds(job["submitted_at"]), 2),
        "attempts_s": [round(at_s, 2) for at_s in times_s],
    }
