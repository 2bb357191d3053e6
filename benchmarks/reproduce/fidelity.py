"""The simulator beside reality: the same 40 jobs run by two agents, and replayed with what was measured on them."""

import os
from statistics import mean

from benchmarks.fidelity.calibration import Measured, calibrate
from benchmarks.fidelity.live import product, run_jobs, settings_set
from benchmarks.fidelity.replay import lived, replayed
from benchmarks.fidelity.workload import planned_jobs
from benchmarks.reproduce.row import Row, against
from tests.e2e.stack import Client

TITLE = "Fidelity of the simulator"
SOURCE = (
    "Synergy's own simulator is 0.6 to 6 % off its cluster. Here the published column is what really happened: "
    "40 jobs that train five models on one CPU slot of each of two agents."
)
JOBS = 40
# Policy and its options.
ARMS: dict[str, tuple[str, dict[str, object]]] = {
    "FIFO": ("fifo", {}),
    "least attained service": ("las", {"queue_limits_gpu_s": [12, 30]}),
}


def rows() -> list[Row]:
    """Return the figures."""
    found: list[Row] = []
    with product() as client:
        measured = calibrate(client)
        for name in ARMS:
            found += _arm(client, name, measured)
    return found


def _arm(client: Client, name: str, measured: Measured) -> list[Row]:
    policy, options = ARMS[name]
    settings_set(client, policy, options)
    planned = planned_jobs(JOBS, num_slots=2, start_s=mean(measured.start_s.values()))
    steps = [measured.steps(job.kind, job.training_s) for job in planned]
    load = os.getloadavg()[0]
    jobs = run_jobs(client, planned, steps)
    real, ours = lived(jobs), replayed(planned, steps, jobs, measured, policy, options)
    setting = f"{JOBS} jobs, two slots; load of the machine {load:.1f} before, {os.getloadavg()[0]:.1f} after"
    return [
        against(
            f"{name}: average completion time",
            real.average_jct_s,
            ours.average_jct_s,
            "s",
            setting=setting,
            note=f"preempted {real.preemptions} times, {ours.preemptions} in the replay",
        ),
        against(f"{name}: makespan", real.makespan_s, ours.makespan_s, "s", setting=setting),
    ]
