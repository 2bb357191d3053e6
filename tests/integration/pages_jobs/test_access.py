"""Who sees which job and may do what with it. What one may not see does not exist."""

import pytest
from django.test import Client

from scheduler.core.model.lifecycle import JobState
from scheduler.models import Job
from tests.integration.pages_jobs.conftest import TABS, World, job_in, log_write, newest_attempt

SEES = {"admin": True, "lead": True, "member": True, "viewer": True, "outsider": False, "nobody": False}


@pytest.mark.parametrize("role", SEES)
@pytest.mark.parametrize("tab", TABS)
def test_a_job_is_seen_by_its_queue_alone(world: World, role: str, tab: str) -> None:
    """404 for everybody else, by number and by id, on every tab."""
    job = job_in(world, JobState.RUNNING, name="canary-job")
    browser = world.browser(role)
    pages = [browser.open(f"/jobs/{key}{tab}") for key in (f"J-{job.number}", job.pk, str(job.number))]

    assert {page.status for page in pages} == {200 if SEES[role] else 404}
    assert all(("canary-job" in page.html) == SEES[role] for page in pages)


@pytest.mark.parametrize("role", SEES)
def test_logs_are_downloaded_by_the_queue_alone(world: World, role: str) -> None:
    """The file is as guarded as the page, and never shown as a page."""
    job = job_in(world, JobState.RUNNING)
    log_write(newest_attempt(job), "<script>canary</script>\n")
    response = world.browser(role).client.get(f"/jobs/J-{job.number}/logs/1/download")

    assert response.status_code == (200 if SEES[role] else 404)
    if SEES[role]:
        assert response.getvalue() == b"<script>canary</script>\n"
        assert response["Content-Disposition"].startswith("attachment")
        assert response["X-Content-Type-Options"] == "nosniff"
        assert response["Content-Type"].startswith("text/plain")


@pytest.mark.parametrize("path", ["/jobs", "/jobs/new", "/jobs/J-1", "/jobs/J-1/logs"])
def test_who_is_not_signed_in_is_sent_to_the_door(world: World, path: str) -> None:
    """Every page of jobs needs a sign-in."""
    response = Client().get(path)

    assert response.status_code == 302
    assert response["Location"].startswith("/sign-in")


def test_unknown_jobs_tabs_and_attempts_do_not_exist(world: World) -> None:
    """No page for what there is not."""
    job = job_in(world, JobState.RUNNING)
    browser = world.browser("admin")
    paths = ["/jobs/J-999", "/jobs/nonsense", f"/jobs/J-{job.number}/nonsense", f"/jobs/J-{job.number}/logs/9/download"]

    assert [browser.open(path).status for path in paths] == [404] * 4


@pytest.mark.parametrize(
    ("role", "owner", "may"),
    [
        ("member", "member", True),
        ("member", "lead", False),
        ("lead", "member", True),
        ("viewer", "member", False),
        ("admin", "member", True),
    ],
)
def test_buttons_are_there_for_those_who_may(world: World, role: str, owner: str, may: bool) -> None:
    """A member acts on the own jobs, a lead on all of the queue, a viewer on none."""
    job = job_in(world, JobState.RUNNING, owner=world.users[owner])
    page = world.browser(role).open(f"/jobs/J-{job.number}")

    assert bool(page.having(data_dialog="cancel-dialog")) is may
    assert bool(page.having(data_dialog="suspend-dialog")) is may
    assert "Clone" in page.text


@pytest.mark.parametrize("action", ["cancel", "suspend"])
@pytest.mark.parametrize("role", ["viewer", "outsider", "nobody"])
def test_a_form_that_is_sent_anyway_changes_nothing(world: World, role: str, action: str) -> None:
    """Hiding a button is no protection; the service refuses."""
    job = job_in(world, JobState.QUEUED)
    page = world.browser(role).send(f"/jobs/J-{job.number}/{action}")
    job.refresh_from_db()

    assert job.state == JobState.QUEUED
    assert page.status == (200 if role == "viewer" else 404)
    if role == "viewer":
        assert "may do this" in page.text


def test_actions_need_the_token_against_forged_forms(world: World) -> None:
    """Another site cannot press the button."""
    job = job_in(world, JobState.QUEUED)
    client = Client(enforce_csrf_checks=True)
    client.force_login(world.users["member"])

    assert client.post(f"/jobs/J-{job.number}/cancel").status_code == 403
    assert client.post("/jobs/cancel", {"job": job.pk, "confirmed": "yes"}).status_code == 403
    assert client.post("/jobs/new", {"name": "x"}).status_code == 403


def test_a_queued_job_is_cancelled_at_once_and_says_so(world: World) -> None:
    """Without scripts the question comes as a page; the answer is a message on the job's page."""
    job = job_in(world, JobState.QUEUED, name="early")
    browser = world.browser("member")
    asked = browser.open(f"/jobs/J-{job.number}/cancel")
    page = browser.send(f"/jobs/J-{job.number}/cancel")
    job.refresh_from_db()

    assert "Cancel early?" in asked.text
    assert "It has not run yet." in asked.text
    assert job.state == JobState.CANCELLED
    assert "early is cancelled." in page.text


def test_a_running_job_is_asked_to_stop(world: World) -> None:
    """It keeps its devices until it has ended; the page says what was asked, not what is not yet true."""
    job = job_in(world, JobState.RUNNING, name="late", num_gpus=2)
    browser = world.browser("member")
    asked = browser.open(f"/jobs/J-{job.number}/cancel")
    page = browser.send(f"/jobs/J-{job.number}/cancel")

    assert "gives 2 CPU slots back" in asked.text
    assert "late is asked to stop." in page.text
    assert "is being cancelled" in page.text
    assert not page.having(data_dialog="cancel-dialog")


def test_suspend_and_resume_follow_each_other(world: World) -> None:
    """What is suspended offers to be resumed."""
    job = job_in(world, JobState.QUEUED)
    browser = world.browser("member")
    suspended = browser.send(f"/jobs/J-{job.number}/suspend")
    resumed = browser.send(f"/jobs/J-{job.number}/resume")

    assert suspended.having(data_dialog="resume-dialog")
    assert not suspended.having(data_dialog="suspend-dialog")
    assert resumed.having(data_dialog="suspend-dialog")
    assert Job.objects.get(pk=job.pk).state == JobState.QUEUED


def test_nothing_can_be_done_with_an_ended_job(world: World) -> None:
    """An old tab or a bookmark gets an answer, not an error page."""
    job = job_in(world, JobState.COMPLETED)
    browser = world.browser("member")

    assert "has ended already" in browser.send(f"/jobs/J-{job.number}/cancel").text
    assert "nothing to suspend" in browser.follow(f"/jobs/J-{job.number}/suspend").text
