"""The log of a job as a page: its end, any place in it, any attempt, and never more than asked."""

import re

import pytest

from frontend.pages.jobs.logs.log_view import COUNTED_BYTES, TAIL_LINES
from scheduler.core.model.lifecycle import JobState
from scheduler.models import Job
from tests.integration.pages_jobs.conftest import Page, World, job_in, log_write, newest_attempt
from tests.support.rows.factories import attempt_make, gang_make, job_move


def gutter(page: Page) -> list[str]:
    """Return what stands in the gutter, top to bottom."""
    return re.findall(r'<li id="B\d+"[^>]*><a [^>]*>(\d+)</a>', page.html)


def running(world: World) -> Job:
    """Return a running job."""
    return job_in(world, JobState.RUNNING)


def test_the_last_thousand_lines_are_shown_with_their_numbers(world: World) -> None:
    """The end is what one looks for; numbers count from the beginning of the log."""
    job = running(world)
    log_write(newest_attempt(job), "".join(f"line {index}\n" for index in range(1, 1501)))
    page = world.browser("member").open(f"/jobs/J-{job.number}/logs")

    assert len(gutter(page)) == TAIL_LINES
    assert (gutter(page)[0], gutter(page)[-1]) == ("501", "1500")
    assert "line 1500" in page.text
    assert "line 500 " not in page.text
    assert "Earlier lines" in page.text


def test_each_process_of_a_gang_has_its_log_to_choose(world: World) -> None:
    """The choice names its server, keeps to itself in every link, and is what a download holds."""
    job = running(world)
    attempt = newest_attempt(job)
    other = gang_make(attempt)
    log_write(attempt, "of rank 0\n")
    log_write(other, "".join(f"of rank 1, line {index}\n" for index in range(1, 1501)))
    browser = world.browser("member")
    path = f"/jobs/J-{job.number}/logs"
    page, chosen = browser.open(path), browser.open(path, rank="1")
    links = [has["href"] for _, has in chosen.tags if "before=" in has.get("href", "") or "at=" in has.get("href", "")]
    download = [has["href"] for _, has in chosen.tags if has.get("href", "").endswith("?rank=1")]
    saved = browser.client.get(download[0])

    assert "of rank 0" in page.text
    assert f"Rank 1, {other.gpu.server.name}" in page.text
    assert "of rank 1, line 1500" in chosen.text
    assert "of rank 0" not in chosen.text
    assert links
    assert all("rank=1" in link for link in links)
    assert saved["Content-Disposition"] == f'attachment; filename="J-{job.number}-attempt-1-rank-1.log"'
    assert b"of rank 1, line 1\n" in saved.getvalue()
    assert gutter(browser.client_page(next(link for link in links if "before=" in link)))[0] == "1"


def test_process_of_a_server_is_called_one(world: World) -> None:
    """Its log is that of all its ranks."""
    job = running(world)
    gang_make(newest_attempt(job))
    Job.objects.filter(pk=job.pk).update(spec={**job.spec, "launch": {"per": "server"}})

    assert "Server 1, " in world.browser("member").open(f"/jobs/J-{job.number}/logs").text


def test_earlier_lines_lead_to_the_beginning(world: World) -> None:
    """Each step back shows what came before, until line 1."""
    job = running(world)
    log_write(newest_attempt(job), "".join(f"line {index:06d}\n" for index in range(1, 12_001)))
    browser = world.browser("member")
    page, seen = browser.open(f"/jobs/J-{job.number}/logs"), 0
    while links := [has["href"] for _, has in page.tags if "before=" in has.get("href", "")]:
        page, seen = browser.client_page(links[0]), seen + 1

    assert gutter(page)[0] == "1"
    assert 1 <= seen < 10
    assert "To the end" in page.text


def test_a_link_to_a_line_shows_it_among_its_neighbours(world: World) -> None:
    """The address of a line holds, however long the log grows."""
    job = running(world)
    log_write(newest_attempt(job), "".join(f"line {index:06d}\n" for index in range(1, 30_001)))
    page = world.browser("member").open(f"/jobs/J-{job.number}/logs", attempt="1", at=str(12 * 9_999))

    assert [has["id"] for has in page.having(**{"class": "at"})] == [f"B{12 * 9_999}"]
    assert "line 010000" in page.text
    assert "line 030000" not in page.text


def test_a_log_that_is_too_long_to_count_shows_bytes_and_says_so(world: World) -> None:
    """A number that would take long to find is not made up."""
    job = running(world)
    line = "x" * 99 + "\n"
    log_write(newest_attempt(job), line * (COUNTED_BYTES // 100 + 2 * TAIL_LINES))
    page = world.browser("member").open(f"/jobs/J-{job.number}/logs")

    assert "so the numbers at the left count bytes." in page.text
    assert int(gutter(page)[0]) > COUNTED_BYTES


def test_a_log_whose_beginning_was_dropped_is_still_read(world: World) -> None:
    """The oldest segments go; what is left has its offsets in the whole log."""
    job = running(world)
    log_write(newest_attempt(job), "kept\n", start=8_000_000)
    page = world.browser("member").open(f"/jobs/J-{job.number}/logs")

    assert gutter(page) == ["8000000"]
    assert "kept" in page.text


def test_each_attempt_has_its_own_log(world: World) -> None:
    """The newest is shown, the others are chosen."""
    job = running(world)
    log_write(newest_attempt(job), "first words\n")
    at = job.state_changed_at
    job_move(job, JobState.QUEUED, at=at)
    log_write(attempt_make(job, server=world.server, at=at), "second words\n")
    job_move(job, JobState.LAUNCHING, at=at)
    browser = world.browser("member")
    newest = browser.open(f"/jobs/J-{job.number}/logs")
    first = browser.open(f"/jobs/J-{job.number}/logs", attempt="1")

    assert "second words" in newest.text
    assert "first words" not in newest.text
    assert "first words" in first.text
    assert [has["data-live"] for has in newest.having(id="log-full")] == ["1"]
    assert [has["data-live"] for has in first.having(id="log-full")] == ["0"]


@pytest.mark.parametrize(
    ("query", "lines"),
    [
        ({"q": "beta"}, ["3"]),
        ({"level": "bad"}, ["2"]),
        ({"level": "warn"}, ["2", "3"]),
        ({"level": "nonsense"}, ["1", "2", "3", "4"]),
        ({"q": "ALPHA"}, ["1", "4"]),
        ({"q": "nothing"}, []),
    ],
)
def test_lines_are_narrowed_without_scripts(world: World, query: dict[str, str], lines: list[str]) -> None:
    """Search and level work by the address; numbers stay those of the log."""
    job = running(world)
    log_write(newest_attempt(job), "alpha\nERROR gamma\nwarn beta\nalpha\n")
    page = world.browser("member").open(f"/jobs/J-{job.number}/logs", **query)

    assert gutter(page) == lines
    assert lines or "No line matches." in page.text


@pytest.mark.parametrize(
    "query",
    [
        {"at": "-1"},
        {"at": "9" * 15},
        {"at": "x"},
        {"before": "0"},
        {"before": "99999999"},
        {"attempt": "7"},
        {"q": "x" * 999},
    ],
)
def test_any_address_gives_a_page(world: World, query: dict[str, str]) -> None:
    """A mended address is an empty or another piece of the log, not an error."""
    job = running(world)
    log_write(newest_attempt(job), "a\nb\n")

    assert world.browser("member").open(f"/jobs/J-{job.number}/logs", **query).status == 200


def test_a_log_that_is_gone_or_not_there_yet_says_so(world: World) -> None:
    """Three kinds of nothing, three sentences."""
    browser = world.browser("member")
    waiting, ended, starting = job_in(world, JobState.QUEUED), job_in(world, JobState.COMPLETED), running(world)
    texts = [browser.open(f"/jobs/J-{job.number}/logs").text for job in (waiting, ended, starting)]

    assert "The log appears when the job starts." in texts[0]
    assert "The log is gone" in texts[1]
    assert "It appears with the first line that the job writes." in texts[2]


def test_bytes_that_are_no_text_do_not_break_the_page(world: World) -> None:
    """A job may write anything."""
    job = running(world)
    log_write(newest_attempt(job), bytes(range(256)) * 20 + b"\nend\n")
    page = world.browser("member").open(f"/jobs/J-{job.number}/logs")

    assert page.status == 200
    assert "end" in page.text


def test_the_overview_shows_the_last_lines(world: World) -> None:
    """A glance, and a link to the whole, where the job's progress is what tells most."""
    job = job_in(world, JobState.RUNNING, step=40)
    log_write(newest_attempt(job), "".join(f"line {index}\n" for index in range(1, 101)))
    page = world.browser("member").open(f"/jobs/J-{job.number}")

    assert gutter(page) == [str(number) for number in range(89, 101)]
    assert "Open log" in page.text


def test_every_segment_is_downloaded(world: World) -> None:
    """The whole kept log in one file."""
    job = running(world)
    log_write(newest_attempt(job), "one\n")
    log_write(newest_attempt(job), "two\n", start=4)
    response = world.browser("member").client.get(f"/jobs/J-{job.number}/logs/1/download")

    assert response.getvalue() == b"one\ntwo\n"
    assert f'filename="J-{job.number}-attempt-1.log"' in response["Content-Disposition"]


def test_a_download_of_nothing_is_an_empty_file(world: World) -> None:
    """No log is no error."""
    job = running(world)

    assert world.browser("member").client.get(f"/jobs/J-{job.number}/logs/1/download").getvalue() == b""
