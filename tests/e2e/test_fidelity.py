"""The simulator beside the product: jobs that really ran on two agents, and their replay with what was measured there.

``make fidelity`` does it with more jobs and policies, three times.
"""

from collections.abc import Iterator

import pytest

from benchmarks.fidelity.calibration import calibrate, steps_of
from benchmarks.fidelity.live import Field, run_jobs, settings_set
from benchmarks.fidelity.replay import lived, replayed
from benchmarks.fidelity.workload import KINDS, STEP_S, planned_jobs
from tests.support.e2e.stack import Stack

JOBS, SLOTS = 10, 4
# A replay that knows nothing of what starts cost is a quarter off.
MOST_APART = 0.15
POLICY, OPTIONS = "priority", {"preemptive": True}


@pytest.fixture
def field(stack: Stack) -> Iterator[Field]:
    """The four slots of the two agents, where priorities decide; afterwards as it was."""
    client = stack.client("admin")
    before = client.get("/api/v1/settings")
    settings_set(client, POLICY, OPTIONS)
    resources = {"gpus": 1, "cpus": 0.25, "memory": "200MB"}
    yield Field(client=client, num_slots=SLOTS, kinds=KINDS, resources=resources)
    client.change_settings(**{name: before[name] for name in ("policy", "policy_options", "locality", "mechanism")})


def test_replay_ends_when_the_jobs_really_ended(field: Field) -> None:
    """Average completion time and makespan of a few jobs, some of them stopped for others, are those of the replay."""
    measured = calibrate(field)
    planned = planned_jobs(JOBS, KINDS, num_slots=SLOTS, start_s=measured.start_s)
    steps = [steps_of(job.training_s, STEP_S[job.kind]) for job in planned]
    jobs = run_jobs(field, planned, steps)

    real = lived(jobs)
    ours = replayed(planned, steps, jobs, measured, POLICY, OPTIONS, num_slots=SLOTS)
    assert ours.average_jct_s == pytest.approx(real.average_jct_s, rel=MOST_APART), (real, ours, measured)
    assert ours.makespan_s == pytest.approx(real.makespan_s, rel=MOST_APART), (real, ours, measured)
