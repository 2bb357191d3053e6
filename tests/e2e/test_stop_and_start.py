"""Ctrl-C stops everything; the next start continues where the first stopped."""

from pathlib import Path

import pytest

from tests.e2e.test_main_job import counting, steps_of
from tests.support.e2e.stack import Stack, wait_for


def test_jobs_continue_after_ctrl_c_and_a_second_start(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Nothing runs between the two, and no step is trained twice or left out."""
    product = Stack(tmp_path_factory.mktemp("product") / "var")
    record = tmp_path / "steps"
    try:
        product.start()
        job_id = counting(product.client("member"), record, name="continued", queue="vision", steps=120)
        wait_for("ten steps", lambda: len(steps_of(record)) > 10)

        assert product.interrupt() == 0
        assert not product.processes()
        stopped_at = len(steps_of(record))
        assert stopped_at < 120

        product.start()
        member = product.client("member")
        job = member.wait_state(job_id, "completed", "failed", within_s=90)
        assert job["state"] == "completed"
        assert steps_of(record) == list(range(120))
    finally:
        product.destroy()
