"""The files tab: the tree by links alone, previews that run nothing, names of any kind, and honest words."""

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from django.conf import settings
from tensorboardX import SummaryWriter

from frontend.pages.jobs.files import tree
from scheduler.core.model.lifecycle import JobState
from scheduler.models import Job, Queue
from scheduler.services.jobs.directory import directory_ask
from tests.integration.pages_jobs.conftest import Page, World, job_in
from tests.support.pages.world import PIXEL
from tests.support.rows.files import file_write, job_directory

SCRIPT = b"<script>canary()</script>\x1b[31m\n\xff"


@pytest.fixture
def job(world: World) -> Job:
    """A job that has ended, with files of its own."""
    job = job_in(world, JobState.COMPLETED, name="vit", directory_bytes=4_000)
    files: dict[str | bytes, bytes] = {
        "out/last.pt": b"w" * 3_000 + b"\0",
        "out/deep/a.txt": b"a",
        "pictures/1.png": PIXEL,
        "pictures/2.png": PIXEL,
        "metrics.json": b'{"top1": 0.79}\n',
        b"two\nlines": b"odd",
        "page.html": SCRIPT,
    }
    for path, content in files.items():
        file_write(job, path, content)
    for number, name in enumerate(("pictures/1.png", "pictures/2.png", "metrics.json")):
        os.utime(job_directory(job) / name, (2_000_000_000 + number, 2_000_000_000 + number))
    return job


def files_of(world: World, job: Job, query: str = "", role: str = "viewer") -> Page:
    """Return the tab of a reader."""
    return world.browser(role).client_page(f"/jobs/J-{job.number}/files{query}")


def names(page: Page) -> list[str]:
    """Return the paths in the tree."""
    return [has["title"] for has in page.having(**{"class": "file-name"})]


def test_first_look_shows_all_that_fits_and_the_newest(world: World, job: Job) -> None:
    """Small folders are open, the newest picture and the newest text are shown, the finding is the title."""
    page = files_of(world, job)

    assert names(page)[:4] != []
    assert {"out/last.pt", "pictures/2.png", "two%0Alines"} <= set(names(page))
    assert f"/api/v1/jobs/{job.pk}/files/pictures/2.png?picture=true" in page.html
    assert '{"top1": 0.79}' in page.text
    assert "2 of 2 pictures" in page.text
    assert "out holds 9" in page.text
    assert "7 files" in page.text


def test_scalars_are_told_with_where_they_are_drawn(world: World, job: Job) -> None:
    """Event files of TensorBoard first, else tables; without either there is no such figure."""
    none = files_of(world, job)
    file_write(job, "out/metrics.csv", b"step,loss\n1,2\n")
    table = files_of(world, job).text
    with SummaryWriter(str(job_directory(job) / "runs" / "first")) as writer:
        for name in ("lr", "top1", "val/loss", "val/top1"):
            writer.add_scalar(name, 0.5, 1)
    page = files_of(world, job)

    assert "drawn on Metrics" not in none.text
    assert "Scalars found in out/" in table
    assert "1 scalar drawn on Metrics" in table
    assert "TensorBoard found in runs/" in page.text
    assert "4 scalars drawn on Metrics" in page.text
    assert "lr, top1, val/loss and 1 more" in page.text
    assert "1 file, TensorBoard" in page.text
    assert [has["href"] for has in page.having(**{"class": "btn small"})].count(f"/jobs/J-{job.number}/metrics") == 1


def test_folders_open_and_close_by_links(world: World, job: Job) -> None:
    """Each link says which folders are open then; a closed tree shows the first level."""
    closed = files_of(world, job, "?open=")
    link = next(has["href"] for has in closed.having(title="out"))
    opened = files_of(world, job, link)
    back = next(has["href"] for has in opened.having(title="out"))

    assert sorted(names(closed)) == ["metrics.json", "out", "page.html", "pictures", "two%0Alines"]
    assert parse_qs(link.removeprefix("?"))["open"] == ["out"]
    assert "out/last.pt" in names(opened)
    assert "out/last.pt" not in names(files_of(world, job, back))


def test_filter_lists_names_and_the_folders_that_hold_them(world: World, job: Job) -> None:
    """Whatever their case; links keep it, the form keeps all else, and what no name has is said."""
    page = files_of(world, job, "?open=&show=page.html&match=.PNG")
    opened = files_of(world, job, next(has["href"] for has in page.having(title="pictures")))
    none = files_of(world, job, "?match=nothing")

    assert names(page) == ["pictures"]
    assert "2 of 2 files" in page.text.replace("\u00a0", " ")
    assert sorted(names(opened)) == ["pictures", "pictures/1.png", "pictures/2.png"]
    assert {(has["name"], has["value"]) for has in page.having(type="hidden") if has["name"] in ("open", "show")} == {
        ("open", ""),
        ("show", "page.html"),
    }
    assert "No name here has “nothing” in it." in none.text
    assert none.having(id="files-match")[0]["value"] == "nothing"


def test_chosen_files_are_deleted_after_a_question(
    world: World, job: Job, django_capture_on_commit_callbacks: Any
) -> None:
    """It names them with their bytes; readers get no button, and without a tick nothing is asked."""
    member, path = world.browser("member"), f"/jobs/J-{job.number}/discard"
    asked = member.client_page(f"{path}?chosen=1&path=out&path=metrics.json")
    refused = world.browser("viewer").client.get(f"{path}?path=out", follow=True).content.decode()
    nothing = member.client.get(f"{path}?chosen=1", follow=True).content.decode()
    with django_capture_on_commit_callbacks(execute=True):
        member.client.post(f"{path}?chosen=1&path=out&path=metrics.json")
    request = next((Path(settings.SHARED_DIR) / "file-removals").iterdir())

    assert "Delete 3 files of vit, 2.9 KiB?" in asked.text.replace("\u00a0", " ")
    assert "metrics.json, out: what is deleted is gone for good." in asked.text
    assert "Tick the files to delete." in nothing
    assert "and leads of its queue may delete its files." in refused
    assert json.loads(request.read_bytes())["paths"] == [["metrics.json"], ["out"]]
    assert files_of(world, job, role="member").having(formaction=path)
    assert not files_of(world, job, role="viewer").having(formaction=path)


def test_two_previews_at_once_and_neighbours_of_a_picture(world: World, job: Job) -> None:
    """A third takes the place of the older one; what is no text or picture says so."""
    page = files_of(world, job, "?show=metrics.json&show=pictures/1.png")
    link = next(has["href"] for has in page.having(title="out/last.pt"))
    other = next(has["href"] for has in page.having(aria_label="The picture after"))

    assert parse_qs(link.removeprefix("?"))["show"] == ["pictures/1.png", "out/last.pt"]
    assert parse_qs(other.removeprefix("?"))["show"] == ["metrics.json", "pictures/2.png"]
    assert "No preview." in files_of(world, job, link).text


def test_boxes_and_their_form_ask_for_a_zip(world: World, job: Job) -> None:
    """Files and folders have one with what the foot sums up; a link has none, as it is never sent."""
    (job_directory(job) / "link").symlink_to("metrics.json")
    page = files_of(world, job, "?open=out")
    boxes = {box["value"]: box for box in page.having(type="checkbox", name="path")}

    assert set(boxes) == set(names(page)) - {"link"}
    assert (boxes["out"]["data-files"], boxes["out"]["data-bytes"]) == ("2", "3002")
    assert (boxes["metrics.json"]["data-files"], boxes["metrics.json"]["data-bytes"]) == ("1", "15")
    assert "data-folder" in boxes["out/deep"]
    assert "data-folder" not in boxes["out/last.pt"]
    assert page.having(id="files-form")[0]["action"] == f"/api/v1/jobs/{job.pk}/archive"
    assert "method" not in page.having(id="files-form")[0]


@pytest.mark.parametrize(
    ("shown", "is_pair"),
    [
        (("pictures/1.png", "pictures/2.png"), True),
        (("metrics.json", "page.html"), True),
        (("metrics.json", "pictures/2.png"), False),
        (("metrics.json",), False),
    ],
)
def test_two_previews_of_one_kind_stand_side_by_side(
    world: World, job: Job, shown: tuple[str, ...], *, is_pair: bool
) -> None:
    """A picture and a text stand one above the other: there is nothing to compare."""
    page = files_of(world, job, "?" + "&".join(f"show={path}" for path in shown))

    assert bool(page.having(**{"class": "stack previews pair"})) == is_pair


def test_nothing_that_a_job_wrote_runs_on_the_page(world: World, job: Job) -> None:
    """A page is a text here; what cannot be shown is replaced, and said."""
    page = files_of(world, job, "?show=page.html")

    assert "<script>canary" not in page.html
    assert "<script>canary()</script>\ufffd[31m" in page.text
    assert "not all of it is UTF-8" in page.text


@pytest.mark.parametrize("path", ["../../other", "out", "nowhere", "a" * 5_000, "%2E%2E/x", "out/last.pt/x"])
def test_paths_that_are_no_files_say_so(world: World, job: Job, path: str) -> None:
    """The page stands."""
    page = files_of(world, job, f"?show={path.replace('%', '%25')}&open={path.replace('%', '%25')}")

    assert page.status == 200
    assert any(words in page.text for words in ("There is no f", "is a folder", "is no folder"))


def test_long_folders_and_texts_show_their_begin(world: World, job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a link to the rest."""
    monkeypatch.setattr(tree, "ROWS_AT_FIRST", 3)
    file_write(job, "long.txt", b"".join(b"line %d\n" % number for number in range(500)))
    for number in range(5):
        file_write(job, f"many/{number}")
    page = files_of(world, job, "?open=many&show=long.txt")
    whole = files_of(world, job, "?open=many&whole=many&show=long.txt")
    lines = files_of(world, job, "?show=long.txt&whole=long.txt")

    assert "2 more" in page.text
    assert "first 200 of 500 lines" in page.text
    assert "line 200" not in page.text
    assert "many/0" in names(whole)
    assert "line 499" in lines.text


def test_when_files_go_is_always_there(world: World, job: Job) -> None:
    """In colour in the last week; while the job runs, sizes may grow; over its limit the queue says what happens."""
    Queue.objects.filter(pk=world.vision.pk).update(keep_directories_days=5, directories_most_bytes=1_000)
    running = job_in(world, JobState.RUNNING, directory_bytes=10)
    file_write(running, "a.txt", b"1")
    page = files_of(world, job)

    assert "5 days after its end, then deleted" in page.text
    assert page.having(**{"class": "tile t-warn"})
    assert "over its limit; new files are kept" in page.text
    assert "sizes may grow" in files_of(world, running).text


def test_rule_of_less_than_three_days_is_told_as_it_is_kept(world: World, job: Job) -> None:
    """A queue may have one from before there was a least; nothing goes sooner, so no page says sooner."""
    Queue.objects.filter(pk=world.vision.pk).update(keep_directories_days=0)

    assert "3 days after its end, then deleted" in files_of(world, job).text
    assert "3 days after the end of a job" in world.browser("member").client_page(f"/jobs/J-{job.number}/keep").text


@pytest.mark.parametrize(
    ("reason", "says"),
    [
        ("age", "they were kept as long as its queue keeps files"),
        ("limit", "its queue or its user stored more than it may"),
        ("discard", "lea had its files removed"),
    ],
)
def test_events_say_by_what_files_were_removed(world: World, job: Job, reason: str, says: str) -> None:
    """Whoever looks for them learns whom or what to ask."""
    directory_ask(job, actor="lea", reason=reason, at=datetime.now(UTC))

    assert says in world.browser("member").client_page(f"/jobs/J-{job.number}/events").text


def test_job_without_files_says_what_would_make_one(world: World, job: Job) -> None:
    """Before its start, without any, and when they are deleted."""
    empty = job_in(world, JobState.RUNNING)
    job_directory(empty)
    Job.objects.filter(pk=job.pk).update(directory_removal_at=datetime.now(UTC) - timedelta(days=1))

    assert "wrote nothing into $CLUSTERWEB_JOB_DIR" in files_of(world, empty).text
    assert "Its files are deleted." in files_of(world, job).text
    assert "has not started" in files_of(world, job_in(world, JobState.QUEUED)).text


@pytest.mark.parametrize(("role", "status"), [("viewer", 200), ("lead", 200), ("outsider", 404), ("nobody", 404)])
def test_files_are_for_all_who_see_the_job(world: World, job: Job, role: str, status: int) -> None:
    """As its log is."""
    page = files_of(world, job, role=role)

    assert page.status == status
    assert ("metrics.json" in page.html) == (status == 200)


def test_many_files_are_not_counted_on_every_tab(world: World, job: Job, monkeypatch: Any) -> None:
    """A count that takes long is left out, and said to be a least on the tab itself."""
    monkeypatch.setattr("frontend.pages.jobs.subject.FEW_FILES", 2)
    monkeypatch.setattr("frontend.pages.jobs.subject.MOST_FILES", 4)
    page = files_of(world, job)

    assert "at least" in page.text
    assert "more than" in page.text
    assert 'aria-current="page">Files</a>' in page.html
