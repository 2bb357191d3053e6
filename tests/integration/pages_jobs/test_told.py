"""What lists, forms and pages of jobs say: one word for a state, one subject in a sentence, no holes."""

import pytest

from scheduler.core.model.lifecycle import EndCause, JobState
from scheduler.core.model.plan import WaitReason
from scheduler.models import Job
from tests.integration.pages_jobs.conftest import World, job_in
from tests.integration.pages_jobs.test_form import FIELDS
from tests.support.rows.factories import job_make


def test_a_preparing_job_is_in_one_count_and_called_so(world: World) -> None:
    """Not among the queued as well, and not waiting on its own page."""
    job_make(world.vision, state=JobState.QUEUED)
    one = job_make(world.vision, state=JobState.QUEUED)
    Job.objects.filter(pk=one.pk).update(wait_reason=WaitReason.PREPARING_ENVIRONMENT, wait_since=one.submitted_at)
    browser = world.browser("member")
    page, queued = browser.open("/jobs"), browser.open("/jobs", state="queued")

    assert "Queued 1" in page.text
    assert "Preparing 1" in page.text
    assert f"J-{one.number}" not in queued.text
    assert "1 of 1 job" in queued.text


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("gpus__gte=abc", "gpus__gte is no filter of this list and is left out."),
        ("cursor=abc", "cursor is no filter of this list and is left out."),
        ("older_than=abc", "older_than must be a number, not abc."),
        ("sort=loss", "loss is no order of this list."),
        ("idle=1", "idle must be true, not 1."),
    ],
)
def test_what_the_list_does_not_understand_is_told(world: World, query: str, told: str) -> None:
    """A filter that is left out without a word shows jobs that were not asked for."""
    page = world.browser("member").client_page(f"/jobs?{query}")

    assert page.status == 200
    assert told in page.text


def test_overview_tells_a_range_that_is_none(world: World) -> None:
    """And shows the usual one."""
    browser = world.browser("member")

    assert "99y is no range here, so the last 24 h are shown." in browser.open("/", range="99y").text
    assert "is no range here" not in browser.open("/", range="6h").text


def test_errors_have_one_subject_and_tell_what_the_cluster_has(world: World) -> None:
    """The label of the field, once, in the list and at the field; 4096 GPUs are none of this cluster's."""
    for action in ("submit", "live"):
        page = world.browser("member").send(
            "/jobs/new", {**FIELDS, "name": "n" * 99, "gpus": "9999", "cpus": "x", "action": action}
        )
        assert "Name may have at most 80 characters. It has 99." in page.text
        assert "CPU cores must be a number" in page.text
        assert "between 1 and 4096. You asked for 9999. This cluster has" in page.text
        assert "Name: " not in page.text
        assert "GPUs: " not in page.text


def test_a_failed_job_is_not_told_of_lines_for_progress(world: World) -> None:
    """It ended: no line helps it, and what was not measured leaves no card."""
    failed = job_in(world, JobState.FAILED)
    failed.attempts.update(end_cause=EndCause.EXIT_CODE, exit_code=1)
    page = world.browser("member").open(f"/jobs/J-{failed.number}")

    assert "Four lines add progress" not in page.text
    assert "was not measured" not in page.text


@pytest.mark.parametrize(("role", "scopes"), [("member", 2), ("lead", 4), ("admin", 5)])
def test_profile_offers_scopes_that_its_user_can_use(world: World, role: str, scopes: int) -> None:
    """A token could not do more than its user."""
    page = world.browser(role).open("/me")

    assert len([tag for tag in page.having(type="checkbox") if tag.get("name") == "scopes"]) == scopes


def test_pages_for_leads_say_so_to_a_member(world: World) -> None:
    """They belong to no queue in which the member had a role."""
    browser = world.browser("member")

    assert "What-if questions are asked by leads of a queue and by admins." in browser.open("/whatif").text
    assert "Webhooks belong to leads of a queue and to admins." in browser.open("/webhooks").text
    assert "your roles do not show it" in browser.open("/jobs/J-999999").text
