"""Lists that claim an order or a count stay right with thousands of waiting jobs."""

import random
import re
from typing import Any

import pytest

from scheduler.core.model.lifecycle import JobState
from scheduler.core.model.plan import WaitReason
from scheduler.models import Job
from scheduler.ports import ulid_text
from tests.integration.pages_jobs.conftest import Page, World
from tests.support.rows.factories import job_make, round_make

JOBS = 3_000


@pytest.fixture
def last_first(world: World) -> list[Job]:
    """Return 3,000 waiting jobs of the member in the order of the policy, which is not that of their numbers."""
    first = job_make(world.vision, owner=world.users["member"], name="w")
    places = random.Random(7).sample(range(2, JOBS + 1), JOBS - 1)
    columns = {f.attname: getattr(first, f.attname) for f in Job._meta.concrete_fields}
    shared = {**columns, "wait_reason": WaitReason.NO_CAPACITY, "wait_evidence": {"needed_gpus": 1, "free_gpus": 0}}
    Job.objects.bulk_create(
        Job(**{**shared, "id": ulid_text(place, place), "number": first.number + at, "wait_position": place})
        for at, place in enumerate(places, 1)
    )
    Job.objects.filter(pk=first.pk).update(wait_position=1, wait_reason=WaitReason.NO_CAPACITY)
    return list(Job.objects.order_by("wait_position"))


def numbers(page: Page) -> list[int]:
    """Return the numbers of the jobs in tables, top to bottom."""
    return [int(number) for number in re.findall(r'class="name" href="/jobs/J-([0-9]+)', page.html)]


def test_queue_page_begins_with_the_next_job_and_counts_all(world: World, last_first: list[Job]) -> None:
    """The ten that go first, in order, and how many more wait."""
    page = world.browser("lead").open(f"/queues/{world.vision.name}")

    assert numbers(page) == [job.number for job in last_first[:10]]
    assert "2 990 more" in page.text


def places(page: Page) -> list[str]:
    """Return the places in the table of waiting jobs, top to bottom."""
    return re.findall(r'<tr data-job="[^"]*" data-open><td class="num minor">([^<]*)</td>', page.html)


def test_queue_page_says_which_places_are_not_in_its_list(world: World) -> None:
    """Jobs of other queues have places between; one that has left leaves no gap. Parked jobs are in the list."""
    states = {1: JobState.QUEUED, 3: JobState.QUEUED, 4: JobState.PARKED, 6: JobState.QUEUED}
    shown = {place: job_make(world.vision, state=state) for place, state in states.items()}
    hidden = job_make(world.speech, name="canary-theirs")
    stuck = job_make(world.vision, wait_reason=WaitReason.NEVER_FEASIBLE)
    for place, job in {**shown, 5: hidden}.items():
        Job.objects.filter(pk=job.pk).update(wait_position=place)
    page = world.browser("lead").open(f"/queues/{world.vision.name}")

    assert numbers(page) == [*(job.number for job in shown.values()), stuck.number]
    assert places(page) == ["1", "2", "3", "5", ""]
    assert "Places count all jobs in line: 1 of other queues is not in this list." in page.text
    assert "canary-theirs" not in page.html

    Job.objects.filter(pk__in=[hidden.pk, shown[4].pk]).delete()
    page = world.browser("lead").open(f"/queues/{world.vision.name}")
    assert places(page) == ["1", "2", "3", ""]
    assert "not in this list" not in page.text


def test_title_of_the_list_counts_parked_jobs_as_waiting(world: World) -> None:
    """A job that takes turns waits for its next one."""
    for state in (JobState.RUNNING, JobState.PARKED):
        job_make(world.vision, state=state)

    assert "1 job runs and 1 waits" in world.browser("member").open("/jobs").text


def test_overview_counts_all_of_ones_jobs_and_shows_running_ones_first(world: World, last_first: list[Job]) -> None:
    """A job that was submitted first and runs stands above thousands of newer ones."""
    running = last_first[0]
    Job.objects.filter(pk=running.pk).update(state=JobState.RUNNING, wait_reason="", wait_position=None)

    page = world.browser("member").open("/")

    assert numbers(page)[0] == running.number
    assert "1 running · 2 999 queued" in page.text


@pytest.mark.parametrize("place", [1, 2, 1_500, JOBS])
def test_a_job_knows_its_place_and_the_jobs_just_before_it(world: World, last_first: list[Job], place: int) -> None:
    """Place in cluster and queue, how many are ahead, and the nearest of them in order."""
    answer = world.browser("member").client.get(f"/api/v1/jobs/{last_first[place - 1].pk}/explain").json()

    assert (answer["position"], answer["waiting_jobs"]) == (place, JOBS)
    assert (answer["queue_position"], answer["queue_waiting_jobs"]) == (place, JOBS)
    assert answer["num_ahead"] == place - 1
    ahead = [entry["position"] for entry in answer["ahead"]]
    assert ahead == list(range(place - len(ahead), place))


def test_list_of_jobs_counts_all_and_its_pages_hold_each_job_once(world: World, last_first: list[Job]) -> None:
    """By REST, page after page, in an order that many jobs share."""
    browser = world.browser("member")
    assert "of 3 000 jobs" in browser.open("/jobs?state=queued").text
    path, seen = "/api/v1/jobs?state=queued&ordering=priority&limit=500", []
    while path:
        answer = browser.client.get(path).json()
        seen += [row["number"] for row in answer["results"]]
        path = answer["next"]

    assert sorted(seen) == sorted(job.number for job in last_first)


def test_round_page_counts_what_it_does_not_show(world: World, last_first: list[Job]) -> None:
    """Titles count all decisions of their kind; a line says that lists are cut."""
    jobs = [job.number for job in last_first]
    grants: list[dict[str, Any]] = [
        {"job": number, "state": state, "seats": []}
        for state, part in (("launched", jobs[:700]), ("kept", jobs[700:1_500]), ("reconfiguring", jobs[1_500:1_503]))
        for number in part
    ]
    waiting = [
        {"job": number, "position": place, "reason": "no_capacity", "evidence": {}}
        for place, number in enumerate(jobs[1_503:], 1)
    ]
    decisions = {"grants": grants, "preemptions": [], "waiting": waiting, "waiting_by_reason": {"no_capacity": 1_497}}
    round_make(1, decisions=decisions, num_launched=700, num_waiting=len(waiting), num_running=1_500)

    text = world.browser("viewer").open("/rounds/1").text

    assert "700 jobs started" in text
    assert "800 jobs kept their place" in text
    assert "3 jobs got a place that is not free yet" in text
    assert "1 497 jobs wait" in text
    assert "Longer lists are cut; the counts are whole." in text


def test_why_page_does_not_wait_for_changes_that_take_seconds_to_try(world: World, last_first: list[Job]) -> None:
    """With thousands of jobs it asks for them when it is there; without scripts a link does."""
    path = f"/jobs/J-{last_first[-1].number}/why"

    at_once, asked = (world.browser("member").open(each) for each in (path, f"{path}?offers=1"))

    assert 'data-ask="?offers=1"' in at_once.html
    assert 'href="?offers=1"' in at_once.html
    assert "data-ask" not in asked.html
