"""Time slicing by the whole product: more jobs than slots, each in one process from its first step to its last."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.stack import Client, Stack
from tests.e2e.test_main_job import counting, steps_of

pytestmark = pytest.mark.slow


def settings(admin: Client, **changes: object) -> None:
    """Change settings of the scheduler."""
    version = admin.get("/api/v1/settings")["version"]
    answer = admin.call("PATCH", "/api/v1/settings", changes, {"If-Match": f'"{version}"'})
    assert answer.status == 200, answer.text


@pytest.fixture
def turns(stack: Stack) -> Iterator[Stack]:
    """The product with turns of three seconds; afterwards as it was."""
    admin = stack.client("admin")
    settings(admin, introspection=["slicing"], introspection_options={"slicing": {"quantum_s": 3}})
    yield stack
    settings(admin, introspection=[])


def test_six_jobs_take_turns_on_four_slots(turns: Stack, tmp_path: Path) -> None:
    """Every job trains early, is parked, goes on, and trains each step exactly once."""
    member = turns.client("member")
    records = [tmp_path / f"turn-{number}" for number in range(6)]
    jobs = [counting(member, record, name=record.name, queue="vision", steps=80) for record in records]

    done = [member.wait_state(job_id, "completed", "failed", within_s=240) for job_id in jobs]

    assert [job["state"] for job in done] == ["completed"] * 6
    assert [steps_of(record) for record in records] == [list(range(80))] * 6
    events = [member.get(f"/api/v1/jobs/{job_id}/events")["results"] for job_id in jobs]
    assert sum(any(event["new_state"] == "parked" for event in of_job) for of_job in events) >= 4
