"""The job list: filters in the URL, pages that do not slip, what a row says, cancelling several."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from frontend.pages.jobs.listing.filters import PAGE_JOBS
from scheduler.core.model.lifecycle import EndCause, JobState
from scheduler.core.model.plan import WaitReason
from scheduler.models import Job
from scheduler.services.jobs.state import Wait, job_waits_record
from tests.integration.pages_jobs.conftest import Page, World, job_in
from tests.support.rows.factories import job_make


def names(page: Page) -> list[str]:
    """Return the names of the jobs in the table, top to bottom."""
    links = page.html.split('class="name" href="/jobs/J-')[1:]
    return [link.split(">", 1)[1].split("<", 1)[0] for link in links]


def waits_for_room(job: Job) -> None:
    """Let a round say why the job waits."""
    evidence: dict[str, Any] = {"needed_gpus": 2, "free_gpus": 1}
    wait = Wait(job_id=job.pk, reason=WaitReason.NO_CAPACITY, evidence=evidence, position=1)
    job_waits_record(waits=[wait], round_number=1, at=datetime.now(UTC))


def test_only_jobs_of_ones_queues_are_listed_and_counted(world: World) -> None:
    """Another team's jobs are in no row and no number."""
    job_in(world, JobState.RUNNING, name="ours")
    job_make(world.speech, name="canary-theirs")
    page = world.browser("viewer").open("/jobs")

    assert names(page) == ["ours"]
    assert "canary-theirs" not in page.html
    assert "1 of 1 job" in page.text


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, ["done", "waits", "runs"]),
        ({"state": "active"}, ["waits", "runs"]),
        ({"state": "queued"}, ["waits"]),
        ({"state": "running"}, ["runs"]),
        ({"state": "completed"}, ["done"]),
        ({"state": "failed"}, []),
        ({"owner": "me"}, ["done", "runs"]),
        ({"owner": "lea"}, ["waits"]),
        ({"queue": "vision"}, ["done", "waits", "runs"]),
        ({"queue": "speech"}, []),
        ({"search": "don"}, ["done"]),
        ({"search": "J-2"}, ["waits"]),
        ({"state": "active", "owner": "me"}, ["runs"]),
        ({"search": "\x00"}, ["done", "waits", "runs"]),
    ],
)
def test_filters_stand_in_the_url(world: World, query: dict[str, str], expected: list[str]) -> None:
    """The same address gives the same list, to everybody who may see it."""
    job_in(world, JobState.RUNNING, name="runs")
    job_in(world, JobState.QUEUED, name="waits", owner=world.users["lead"])
    job_in(world, JobState.COMPLETED, name="done")

    assert names(world.browser("member").open("/jobs", **query)) == expected


def test_a_state_that_does_not_exist_is_named(world: World) -> None:
    """A slip in the address is said, not swallowed."""
    job_in(world, JobState.RUNNING, name="runs")
    page = world.browser("member").open("/jobs", state="sleeping")

    assert "sleeping is not a state. All states are shown." in page.text
    assert names(page) == ["runs"]


def test_counts_of_states_do_not_follow_the_chosen_state(world: World) -> None:
    """The other states stay in sight, each with its number and its address."""
    job_in(world, JobState.RUNNING)
    job_in(world, JobState.QUEUED)
    page = world.browser("member").open("/jobs", state="queued", owner="me")

    assert "All 2 Active 2 Queued 1 Running 1" in page.text
    assert page.having(href="?state=running&owner=me")


def test_no_match_says_how_many_there_are(world: World) -> None:
    """An empty list is an answer with a way out."""
    job_in(world, JobState.RUNNING)
    page = world.browser("member").open("/jobs", search="nothing-like-it")

    assert "No job matches these filters. 1 in all." in page.text
    assert "Clear filters" in page.text


def test_the_first_visit_offers_the_form(world: World) -> None:
    """No job at all: one sentence, one action."""
    page = world.browser("member").open("/jobs")

    assert "No job yet." in page.text
    assert page.status == 200


def test_pages_do_not_slip_while_jobs_arrive(world: World) -> None:
    """A page begins after a job, not at an offset; back leads to where one came from."""
    at = datetime.now(UTC)
    for index in range(PAGE_JOBS + 3):
        job_make(world.vision, name=f"job-{index:03d}", owner=world.users["member"], at=at)
    browser = world.browser("member")
    first = browser.open("/jobs")
    job_make(world.vision, name="late", owner=world.users["member"], at=at)
    (older,) = first.having(rel="next")
    second = browser.open(f"/jobs{older['href']}")
    (newer,) = second.having(rel="prev")

    assert names(first) == [f"job-{index:03d}" for index in range(PAGE_JOBS + 2, 2, -1)]
    assert names(second) == ["job-002", "job-001", "job-000"]
    assert names(browser.open(f"/jobs{newer['href']}"))[-1] == "job-003"
    assert not second.having(rel="next")


@pytest.mark.parametrize(
    "query", [{"older_than": "x"}, {"newer_than": "-1"}, {"older_than": "9" * 30}, {"older_than": "0"}]
)
def test_a_mended_address_still_gives_a_page(world: World, query: dict[str, str]) -> None:
    """Nobody gets an error for a number in the address."""
    job_in(world, JobState.RUNNING)

    assert world.browser("member").open("/jobs", **query).status == 200


def test_rows_say_why_they_wait_and_how_they_ended(world: World) -> None:
    """A reason for each job that does not run, in the words of this cluster's devices."""
    waits_for_room(job_in(world, JobState.QUEUED, num_gpus=2))
    job_in(world, JobState.FAILED, step=212, end_cause=EndCause.OUT_OF_MEMORY, end_detail="9 GiB of 8 GiB")
    job_in(world, JobState.RUNNING, step=30, total_steps=100, steps_per_s=2.0)
    text = world.browser("member").open("/jobs").text

    assert "It needs 2 CPU slots; 1 is free. It waits until running jobs give back 1 more." in text
    assert "GPU" not in text
    assert "Out of memory at step 212: 9 GiB of 8 GiB" in text
    assert "30 % 2.00 steps/s" in text
    assert "about " in text


def test_a_job_without_progress_gets_no_bar(world: World) -> None:
    """Never a fake bar."""
    job_in(world, JobState.RUNNING)
    page = world.browser("member").open("/jobs")

    assert "Progress not reported" in page.text
    assert not page.having(role="progressbar")


@pytest.mark.parametrize(("role", "picks"), [("member", 1), ("lead", 2), ("viewer", 0), ("admin", 2)])
def test_only_jobs_that_one_may_cancel_can_be_chosen(world: World, role: str, picks: int) -> None:
    """A box on a row means that the button will work for it."""
    job_in(world, JobState.RUNNING)
    job_in(world, JobState.QUEUED, owner=world.users["lead"])
    job_in(world, JobState.COMPLETED)

    assert len(world.browser(role).open("/jobs").having(name="job", type="checkbox")) == picks


def test_several_jobs_are_cancelled_after_a_question(world: World) -> None:
    """Without scripts the question is a page with the effect in numbers."""
    jobs = [job_in(world, JobState.RUNNING, num_gpus=2), job_in(world, JobState.QUEUED)]
    browser = world.browser("member")
    chosen = {"job": [f"J-{job.number}" for job in jobs], "back": "?state=active"}
    asked = browser.send("/jobs/cancel", chosen)
    before = [job.state for job in Job.objects.order_by("number")]
    done = browser.send("/jobs/cancel", {**chosen, "confirmed": "yes"})

    assert "Cancel 2 jobs? They give 2 CPU slots back." in asked.text
    assert before == [JobState.RUNNING, JobState.QUEUED]
    assert [job.wanted for job in Job.objects.order_by("number")] == ["cancel", "cancel"]
    assert "is asked to stop" in done.text
    assert "is cancelled" in done.text


def test_several_jobs_are_suspended_and_resumed(world: World) -> None:
    """The same with other verbs: one message for all of which the same came, one for each that refuses."""
    jobs = [job_in(world, JobState.QUEUED), job_in(world, JobState.QUEUED), job_in(world, JobState.COMPLETED)]
    browser = world.browser("member")
    chosen = {"job": [f"J-{job.number}" for job in jobs], "confirmed": "yes"}
    suspended = browser.send("/jobs/suspend", chosen)
    states = [job.state for job in Job.objects.order_by("number")]
    resumed = browser.send("/jobs/resume", chosen)

    assert states == [JobState.SUSPENDED, JobState.SUSPENDED, JobState.COMPLETED]
    assert "2 jobs are suspended." in suspended.text
    assert "has ended already" in suspended.text
    assert "2 jobs wait to run again." in resumed.text


def test_cancelling_several_respects_each_right(world: World) -> None:
    """A foreign job in the form is refused, one that may not be seen is not found."""
    own, other = job_in(world, JobState.QUEUED), job_in(world, JobState.QUEUED, owner=world.users["lead"])
    theirs = job_make(world.speech)
    browser = world.browser("member")
    refused = browser.send("/jobs/cancel", {"job": [own.pk, other.pk], "confirmed": "yes"})
    hidden = browser.send("/jobs/cancel", {"job": [theirs.pk], "confirmed": "yes"})

    assert [job.state for job in Job.objects.order_by("number")] == ["cancelled", "queued", "queued"]
    assert "may do this" in refused.text
    assert hidden.status == 404


@pytest.mark.parametrize("back", ["https://evil.example/", "//evil.example", "?state=queued&x=1", ""])
def test_after_cancelling_one_stays_in_the_list(world: World, back: str) -> None:
    """The way back leads nowhere else, whatever the form says."""
    response = world.browser("member").client.post("/jobs/cancel", {"back": back})

    assert response.status_code == 302
    assert response["Location"].startswith("/jobs?")


def test_queries_of_the_list_do_not_grow_with_its_rows(world: World, django_assert_max_num_queries: Any) -> None:
    """Fifty rows cost what one costs."""
    at = datetime.now(UTC) - timedelta(hours=1)
    for _ in range(40):
        job_make(world.vision, owner=world.users["member"], at=at)
    browser = world.browser("member")

    with django_assert_max_num_queries(22):
        assert len(names(browser.open("/jobs"))) == 40


HEADS = ["Queue", "Owner", "GPUs", "Priority", "Submitted", "Waited", "Ran"]


def heads(page: Page) -> list[str]:
    """Return which of the optional columns a list has, in their order."""
    shown = [" ".join(re.sub("<[^>]*>", " ", head).split()) for head in re.findall(r"<th[^>]*>(.*?)</th>", page.html)]
    return [head for head in shown if head in (*HEADS, "CPU slots")]


def test_columns_stand_in_the_url_and_stay_with_filters(world: World) -> None:
    """Chosen by a form without scripts; every link of the list, a kept view among them, has them too."""
    job_in(world, JobState.RUNNING, priority=70)
    job_in(world, JobState.QUEUED)
    browser = world.browser("member")

    assert heads(browser.open("/jobs")) == ["Queue", "Owner", "CPU slots", "Waited", "Ran"]
    chosen = browser.client_page("/jobs?columns=name&columns=priority&columns=submitted")
    assert heads(chosen) == ["Priority", "Submitted"]
    assert "70" in chosen.text
    assert chosen.having(href="?state=running&columns=name%2Cpriority%2Csubmitted")
    assert heads(browser.open("/jobs", columns="name,priority,submitted")) == ["Priority", "Submitted"]
    assert heads(browser.open("/jobs", columns="name")) == []
    strange = browser.open("/jobs", columns="queue,mood")
    assert heads(strange) == ["Queue"]
    assert "mood is not a column of this list." in strange.text


def test_priority_of_several_jobs_is_set_at_once(world: World) -> None:
    """One form beside the other actions; what is no priority changes nothing, and a viewer is refused."""
    waits, runs = job_in(world, JobState.QUEUED), job_in(world, JobState.RUNNING)
    chosen = [f"J-{waits.number}", f"J-{runs.number}"]

    def priorities() -> list[int]:
        return [Job.objects.get(pk=job.pk).priority for job in (waits, runs)]

    done = world.browser("member").send("/jobs/reprioritise", {"job": chosen, "priority": "80"})
    assert "2 jobs have priority 80 from the next round on." in done.text
    assert priorities() == [80, 80]
    for wrong in ("", "101", "-1", "high"):
        page = world.browser("member").send("/jobs/reprioritise", {"job": chosen, "priority": wrong})
        assert "A priority is a whole number from 0 to 100. Nothing was changed." in page.text
    world.browser("viewer").send("/jobs/reprioritise", {"job": chosen, "priority": "10"})
    assert priorities() == [80, 80]


def test_the_list_is_sorted_by_its_heads(world: World) -> None:
    """The database sorts all that match, page by page; heads say how, and a second click turns them round."""
    for number in range(60):
        job_make(world.vision, state=JobState.COMPLETED, name=f"sorted-{number:02}", num_gpus=1 + number % 3)
    browser = world.browser("member")

    assert names(browser.open("/jobs?search=sorted&sort=name")) == [f"sorted-{number:02}" for number in range(50)]
    assert names(browser.open("/jobs?search=sorted&sort=name&page=2")) == [
        f"sorted-{number:02}" for number in range(50, 60)
    ]
    assert names(browser.open("/jobs?search=sorted&sort=-name"))[0] == "sorted-59"
    page = browser.open("/jobs?search=sorted&sort=-gpus").html
    assert page.count('aria-sort="descending"') == 1
    assert "sort=gpus" in page, "a second click turns it round"
    assert all(
        job % 3 == 2 for job in (int(name[-2:]) for name in names(browser.open("/jobs?search=sorted&sort=-gpus"))[:20])
    )
    assert "Jobs, newest first" in browser.open("/jobs?search=sorted&sort=owner").html, "not a column to sort by"
    assert browser.open("/jobs?sort=name&page=99999999").status == 200
