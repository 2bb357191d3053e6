"""Environments of jobs through the whole product: uv makes them on the server, from a folder of wheels."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.e2e.stack import Client, Stack
from tests.support.suite.wheels import Index

PRINTS = "import tiny; print('tiny is', tiny.__version__)"


@pytest.fixture(scope="module")
def product() -> Iterator[Stack]:
    """A product of one server whose admin has named a folder of wheels as the place where packages come from."""
    folder = Path(tempfile.mkdtemp(prefix="clusterweb-wheels-"))
    folder.chmod(0o755)
    index = Index(folder / "wheels")
    index.wheel("tiny", "1.0")
    stack = Stack(folder / "var", **index.variables, JOB_READ_DIRS=str(index.folder))
    try:
        stack.start()
        admin = stack.client("admin")
        second = next(row["id"] for row in admin.get("/api/v1/servers")["results"] if row["name"] == "server-02")
        assert admin.call("POST", f"/api/v1/servers/{second}/drain", {"reason": "test"}).status == 200
        yield stack
    finally:
        stack.destroy()
        shutil.rmtree(folder)


def submit(client: Client, requirements: str) -> str:
    """Submit a job that needs a package; return its id."""
    return client.submit(
        name="needs",
        queue="vision",
        command=["python", "job.py"],
        files={"job.py": PRINTS, "requirements.txt": requirements},
        python={"requirements": "requirements.txt"},
    )


def ended(client: Client, job_id: str) -> dict[str, Any]:
    """Return a job when it has ended."""
    return client.wait_state(job_id, "completed", "failed", within_s=180)


def test_two_jobs_that_start_together_share_one_environment(product: Stack) -> None:
    """Both find the package that the server's Python has not; a third one that comes later, too."""
    member = product.client("member")
    pair = [submit(member, "tiny==1.0\n") for _ in range(2)]
    done = [ended(member, job_id) for job_id in [*pair, submit(member, "tiny==1.0\n")]]

    assert [job["state"] for job in done] == ["completed"] * 3, [job["end_detail"] for job in done]
    assert len({job["environment"]["digest"] for job in done}) == 1
    for job in done:
        log = member.call("GET", f"/api/v1/jobs/{job['id']}/logs?tail=10", headers={"Accept": "text/plain"})
        assert "tiny is 1.0" in log.text


def test_requirement_that_does_not_exist_ends_with_the_sentence_of_uv(product: Stack) -> None:
    """It is not tried again, and no attempt was made."""
    member = product.client("member")
    job = ended(member, submit(member, "no-such-package==9\n"))

    assert (job["state"], job["end_cause"]) == ("failed", "environment")
    assert "no-such-package" in job["end_detail"]
    assert member.get(f"/api/v1/jobs/{job['id']}/attempts")["results"] == []
