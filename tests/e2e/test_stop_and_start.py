"""Ctrl-C stops everything; the next start continues where the first stopped."""

import re
from pathlib import Path

import pytest

from tests.e2e.test_main_job import counting, steps_of
from tests.support.e2e.stack import Stack, wait_for

# What a shell waits for: it saves when it is asked to, which takes longer than the shell lives.
SAVES_BY_ITSELF = """
import signal, sys, time
asked = []
signal.signal(signal.SIGTERM, lambda *_: asked.append(1))
open(sys.argv[1], "w").write("runs")
while not asked: time.sleep(0.02)
time.sleep(2)
open(sys.argv[1], "w").write("saved")
"""


def test_jobs_continue_after_ctrl_c_and_a_second_start(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Nothing runs between the two, and no step is trained twice or left out; a script of its own has time to save.

    What each of them kept is said at the end.
    """
    product = Stack(tmp_path_factory.mktemp("product") / "var")
    record, own = tmp_path / "steps", tmp_path / "own"
    try:
        product.start()
        job_id = counting(product.client("member"), record, name="continued", queue="vision", steps=120)
        files = {"run.sh": f"python save.py {own}\n", "save.py": SAVES_BY_ITSELF}
        plain_id = product.client("member").submit(
            name="plain", queue="vision", command=["bash", "run.sh"], files=files
        )
        wait_for("ten steps", lambda: len(steps_of(record)) > 10)
        wait_for("the plain script", lambda: own.exists() and own.read_text() == "runs")
        numbers = [product.client("member").job(one)["number"] for one in (job_id, plain_id)]

        assert product.interrupt() == 0
        assert not product.processes()
        assert own.read_text() == "saved"
        said = product.log.read_text()
        assert re.search(rf"J-{numbers[0]}: Step \d+ is kept; no work is lost\.", said)
        assert re.search(rf"J-{numbers[1]}: It has told of no checkpoint: \d+ s of work is lost, but for what it", said)
        stopped_at = len(steps_of(record))
        assert stopped_at < 120

        product.start()
        member = product.client("member")
        job = member.wait_state(job_id, "completed", "failed", within_s=90)
        assert job["state"] == "completed"
        assert steps_of(record) == list(range(120))
    finally:
        product.destroy()
