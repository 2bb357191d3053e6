"""Arrays and jobs that wait for others, as real processes: each index once, no more at once than said, in order."""

from datetime import datetime
from pathlib import Path

from tests.support.e2e.stack import Client, Stack

INDEXES, AT_ONCE = 4, 2
WRITES_INDEX = "import os, sys; print(os.environ['CLUSTERWEB_ARRAY_INDEX'], file=open(sys.argv[1], 'a'), flush=True)"


def submit(client: Client, record: Path, *, script: str, **spec: object) -> dict[str, object]:
    """Submit a script that writes a line; return the job."""
    command = ["python", "-S", "-c", script, str(record)]
    return client.job(client.submit(queue="vision", command=command, **spec))


def test_each_index_runs_once_and_what_waits_for_all_comes_after(stack: Stack, tmp_path: Path) -> None:
    """Four jobs, two of them at once; the job that depends on the array begins when the last has ended."""
    member, record = stack.client("member"), tmp_path / "record"
    first = submit(member, record, script=WRITES_INDEX, name="many", array=f"0-{INDEXES - 1}%{AT_ONCE}")
    script = "import sys; print('after', file=open(sys.argv[1], 'a'), flush=True)"
    after = submit(member, record, script=script, name="after", depends_on=[{str(first["array"]): "completed"}])
    done = member.wait_state(str(after["id"]), "completed", "failed", within_s=120)
    row = member.get(f"/api/v1/arrays/{first['array']}")

    assert done["state"] == "completed", done["end_detail"]
    assert row["states"] == {"completed": INDEXES}
    *indexes, last = record.read_text().split()
    assert (sorted(indexes), last) == ([str(index) for index in range(INDEXES)], "after")
    spans = sorted(
        (moment(attempt["created_at"]), moment(attempt["ended_at"]))
        for job in row["jobs"]
        for attempt in member.get(f"/api/v1/jobs/{job['id']}/attempts")["results"]
    )
    assert len(spans) == INDEXES
    assert all(sum(begun_s <= at_s < ended_s for begun_s, ended_s in spans) <= AT_ONCE for at_s, _ in spans)
    assert moment(done["first_started_at"]) >= max(ended_s for _, ended_s in spans)


def moment(text: str) -> float:
    """Return a time of the API as seconds since 1970."""
    return datetime.fromisoformat(text).timestamp()


def test_job_that_waits_for_one_that_fails_ends_with_its_reason(stack: Stack, tmp_path: Path) -> None:
    """It never starts, and says which job ended how."""
    member = stack.client("member")
    fails = submit(member, tmp_path / "none", script="raise SystemExit(3)", name="fails", retry={"max": 0})
    after = submit(
        member, tmp_path / "none", script="pass", name="after", depends_on=[{f"J-{fails['number']}": "completed"}]
    )
    ended = member.wait_state(str(after["id"]), "cancelled", "failed", "completed", within_s=120)

    assert ended["state"] != "completed"
    assert f"J-{fails['number']}" in str(ended["end_detail"])
    assert member.get(f"/api/v1/jobs/{after['id']}/attempts")["results"] == []
