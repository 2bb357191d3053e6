"""One entry in the audit list for each accepted write: found over all routes, so that a new one cannot be silent."""

import copy

import pytest

from frontend.pages.admin.audit_words import SENTENCES
from scheduler.models import Event
from scheduler.selectors.accounts.audit import KINDS
from tests.integration.api.conftest import World
from tests.integration.api.http.test_rules import send
from tests.integration.api.routes import Route, api_routes

# They answer a question and change nothing.
QUESTIONS = {"post-api-job-import", "post-api-job-unblock", "post-api-queue-forecast", "post-api-code"}
# As the rows of these tests are, there is nothing left to change.
CHANGES_NOTHING = {
    "post-api-job-resume", "post-api-job-restore", "post-api-job-keep", "post-api-job-discard", "delete-api-shadow",
    "put-api-member", "post-api-array-retry", "post-api-quota-request-change", "post-api-quota-request-withdraw",
    "post-api-server-remove",
}  # fmt: skip
WRITES = [one for one in api_routes() if one.method != "get" and str(one) not in QUESTIONS | CHANGES_NOTHING]


@pytest.fixture
def world(kept_world: World, db: None) -> World:
    """The rows; what a test changes is undone after it."""
    return copy.deepcopy(kept_world)


@pytest.mark.parametrize("route", WRITES, ids=str)
def test_accepted_write_is_in_the_audit_list(world: World, route: Route) -> None:
    """With the id of its request, which is in the answer, and the name of who did it."""
    answer = send(world.client("admin"), world, route, "admin")

    assert 200 <= answer.status_code < 300, answer.content
    entries = Event.objects.filter(request_id=answer["X-Request-Id"])
    assert entries.exists(), f"{route} left no event with the id of its request"
    said = {(one.kind, one.reason) for one in entries if one.kind in KINDS}
    assert said <= SENTENCES.keys(), "the audit page has a sentence of its own for each action"
    # What follows from it may be done for somebody else, as the end of the jobs of an experiment is for its owner.
    assert "ada" in entries.values_list("actor", flat=True)
