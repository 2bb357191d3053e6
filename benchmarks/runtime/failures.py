"""Check what the product does with real jobs, each of which fails in another way."""

import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.runtime.figure import Figure
from tests.support.e2e.failing import FAILS_LATER, Case, cases
from tests.support.e2e.stack import RECORDS, Client, Stack

TITLE = "Failures: what is found, and what follows"
LONGEST_S = 300.0
LINE_SHOWN = 90


def figures() -> Sequence[Figure]:
    """Run every case at once on one product and return a row for each."""
    with tempfile.TemporaryDirectory(prefix="clusterweb-failures-") as directory:
        stack = Stack(Path(directory) / "var")
        try:
            stack.start()
            return [*_measured(stack.client("member"), cases(str(Path(RECORDS.name) / "mark"))), _smoke(stack)]
        finally:
            stack.destroy()


def _measured(client: Client, every: Sequence[Case]) -> Iterator[Figure]:
    ids = {case.name: client.submit(**case.job()) for case in every}
    right = 0
    for case in every:
        began_s = time.monotonic()
        job = client.wait_state(ids[case.name], "completed", "failed", within_s=LONGEST_S - time.monotonic() + began_s)
        found = client.get(f"/api/v1/jobs/{ids[case.name]}/attempts")["results"]
        figure = _figure(case, job, sorted(found, key=lambda attempt: int(attempt["number"])))
        right += bool(figure.is_met)
        yield figure
    yield Figure(
        name="Cases with the right cause and the right retry",
        target="all",
        value=f"{right} of {len(every)}",
        is_met=right == len(every),
        setting="the rows above",
    )


def _smoke(stack: Stack) -> Figure:
    """Return what a gang costs that fails after five seconds, with a smoke run and without."""
    cost_gpu_s = {}
    for smoke_run_s in (0.0, 30.0):
        stack.client("admin").change_settings(smoke_run_s=smoke_run_s)
        member = stack.client("member")
        job_id = member.submit(
            name="gang",
            queue="vision",
            command=["python", "job.py"],
            files={"job.py": FAILS_LATER},
            resources={"gpus": 2},
        )
        cost_gpu_s[smoke_run_s] = float(member.wait_state(job_id, "failed", within_s=120)["attained_gpu_s"])
    with_s, without_s = cost_gpu_s[30.0], cost_gpu_s[0.0]
    return Figure(
        name="Slot-seconds of a gang of two that fails after 5 s",
        target="less with a smoke run",
        value=f"{with_s:.1f} with one, {without_s:.1f} without",
        is_met=with_s < without_s,
        setting="once each",
        note="Without one it is tried twice; from launch to the report of its end.",
    )


def _figure(case: Case, job: dict[str, Any], attempts: list[dict[str, Any]]) -> Figure:
    causes, failures = (tuple(one[key] for one in attempts) for key in ("end_cause", "failure"))
    line = attempts[0]["failure_line"]
    is_right = (causes, failures, job["state"], job["failures"]) == (
        case.causes,
        case.failures,
        case.state,
        case.counted,
    )
    return Figure(
        name=f"A job that {case.about}",
        target=_words(case.causes, case.failures, case.state, case.counted),
        value=_words(causes, failures, job["state"], job["failures"]),
        is_met=is_right and case.line in line,
        setting=f"retries: {len(attempts) - 1}",
        note=f"`{line[:LINE_SHOWN]}`" if line else attempts[0]["end_detail"],
    )


def _words(causes: Sequence[str], failures: Sequence[str], state: str, counted: int) -> str:
    ends = ", then ".join(
        f"{cause} ({failure})" if failure else cause for cause, failure in zip(causes, failures, strict=True)
    )
    return f"{ends}: {state}, {counted} charged"
