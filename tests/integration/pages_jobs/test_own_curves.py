"""What a job wrote for other tools: its scalars beside ours, and links to its runs elsewhere."""

import json
import re
from typing import Any

import pytest

from frontend.pages.jobs.charts import scalars
from scheduler.core.model.lifecycle import JobState
from scheduler.models import Job
from scheduler.selectors.jobs import log_links
from tests.integration.pages_jobs.conftest import Page, World, job_in, log_write, newest_attempt
from tests.support.rows.files import file_write

RUN = "https://wandb.ai/lab/vit/runs/3abc"
MLFLOW = "https://mlflow.example.org:5000/#/experiments/1/runs/0af3"


def metrics_of(world: World, **written: bytes) -> Page:
    """Return the metrics of a job that wrote these files of lines, by run."""
    job = job_in(world, JobState.RUNNING)
    for run, content in written.items():
        file_write(job, f"{run}/metrics.jsonl", content)
    return world.browser("viewer").open(f"/jobs/J-{job.number}/metrics")


def figure(page: Page, number: int) -> Any:  # a figure of Plotly
    """Return a figure by the number of its chart."""
    found = re.search(rf'<script id="scalar-{number}-figure" type="application/json">(.*?)</script>', page.html)
    assert found is not None
    return json.loads(found[1])


def test_scalars_are_drawn_beside_ours(world: World) -> None:
    """One chart a name, one line a run, with a break where a run went back."""
    page = metrics_of(
        world,
        a=b'{"step": 1, "val/<b>": 0.5}\n{"step": 2, "val/<b>": 0.25}\n{"step": 1, "val/<b>": 0.125}\n',
        b=b'{"step": 4000, "val/<b>": 0.75, "lr": 0.1}\n',
    )

    assert "2 scalars in 2 files" in page.text
    assert "lr is 0.100 at step 4 000" in page.text
    assert "val/<b> is 0.750 at step 4 000" in page.text
    assert "<b>" not in page.html.replace("<b>2</b>", "").partition("own-title")[2].partition("</main>")[0]
    lines = figure(page, 1)["data"]
    assert [line["name"] for line in lines] == ["a", "b"]
    assert lines[0]["x"] == [1, 2, None, 1]


def test_damaged_files_are_named_and_the_rest_is_drawn(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """So are names beyond those that are drawn; numbers that are none are counted."""
    monkeypatch.setattr(scalars, "MOST_CHARTS", 1)
    page = metrics_of(world, good=b'{"a": 1, "z": 2}\n{"a": NaN, "z": 2}\n', bad=b"no line\n")

    assert "bad/metrics.jsonl is damaged: the line at byte 0 cannot be read" in page.text
    assert "1 more are not drawn: z" in page.text
    assert "1 value is no finite number" in page.text


def test_loss_of_a_file_is_the_loss_of_a_job_that_reports_none(world: World) -> None:
    """It is drawn once, in its place, with where it was read."""
    page = metrics_of(world, out=b'{"step": 1, "loss": 4.0, "lr": 0.1}\n{"step": 2, "loss": 2.0, "lr": 0.1}\n')

    assert "Loss is" in page.text
    assert "Loss by step, read from loss in out/metrics.jsonl" in page.text
    assert "1 more scalar in 1 file" in page.text.replace("\u00a0", " ")
    assert "loss is 2.00 at step 2" not in page.text


@pytest.mark.parametrize(
    ("state", "says"),
    [
        (JobState.RUNNING, "It appears once the job calls run.report(loss=...)"),
        (JobState.COMPLETED, "It reported none and wrote none."),
    ],
)
def test_job_without_a_loss_says_how_one_is_told(world: World, state: JobState, says: str) -> None:
    """To the owner of the next one, once it has ended."""
    job = job_in(world, state)
    page = world.browser("viewer").open(f"/jobs/J-{job.number}/metrics")

    assert says in page.text
    assert "or writes a column loss into metrics.csv" in page.text


def test_job_that_ended_after_one_loss_says_which(world: World) -> None:
    """The head of the page has it, so the chart does not say that there was none."""
    job = job_in(world, JobState.FAILED)
    Job.objects.filter(pk=job.pk).update(loss=2.4, step=83)
    page = world.browser("viewer").open(f"/jobs/J-{job.number}/metrics")

    assert "It ended at 2.40, before there were two values to draw." in page.text


def test_job_without_such_files_has_none(world: World) -> None:
    """And nothing is said of them."""
    assert "own-title" not in metrics_of(world).html


def test_links_of_trackers_are_shown_with_their_host(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the begin and the end of the log, each once, opened without our page in their hands."""
    monkeypatch.setattr(log_links, "LOOK_BYTES", 200)
    job = job_in(world, JobState.RUNNING)
    said = f"wandb: View run at \x1b[34m\x1b[4m{RUN}\x1b[0m\n{'x' * 1000}\nView run at: {MLFLOW}.\nagain {RUN}\n"
    log_write(newest_attempt(job), said)
    page = world.browser("viewer").open(f"/jobs/J-{job.number}/metrics")
    links = page.having(rel="noopener noreferrer nofollow")

    assert [link["href"] for link in links] == [RUN, MLFLOW]
    assert "W&B at wandb.ai" in page.text
    assert "MLflow at mlflow.example.org:5000" in page.text


@pytest.mark.parametrize(
    "url",
    [
        "http://wandb.ai/lab/vit/runs/3abc",
        "javascript://wandb.ai/runs/%0aalert(1)",
        "https://wandb.ai@evil.example/runs/1",
        "https://evil.example/wandb.ai/runs/1",
        "https://evilwandb.ai/lab/runs/1",
        "https://wandb.ai:99999999/lab/runs/1",
        "https://[::1/#/experiments/1/runs/2",
        "https://localhost/#/experiments/1/runs/2",
        "https://wandb.ai/lab/vit",
    ],
)
def test_other_addresses_are_no_links(world: World, url: str) -> None:
    """A job prints what it likes."""
    job = job_in(world, JobState.RUNNING)
    log_write(newest_attempt(job), f"View run at: {url}\n")

    assert not world.browser("viewer").open(f"/jobs/J-{job.number}/metrics").having(rel="noopener noreferrer nofollow")
