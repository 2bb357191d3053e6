"""Search: only what the role may see, and what it may do; the same page serves the command palette."""

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from scheduler.core.model.lifecycle import JobState
from scheduler.selectors.search import search
from tests.integration.api.conftest import World
from tests.support.rows.factories import AT, job_make, member_make, server_make

pytestmark = pytest.mark.django_db


def page(client: Client, q: str) -> str:
    """Return the page of results."""
    return client.get("/search", {"q": q}).content.decode()


def test_jobs_are_found_by_those_who_see_their_queue(world: World) -> None:
    """By name, and by number with J- in front; hidden from others, page and REST alike."""
    for q in ("canary", f"J-{world.job.number}"):
        assert f"/jobs/J-{world.job.number}" in page(world.client("viewer"), q)
        assert f"/jobs/J-{world.job.number}" not in page(world.client("outsider"), q)
    rest = world.client("outsider").get("/api/v1/search?q=canary").json()
    assert rest["jobs"] == []
    rest = world.client("member").get("/api/v1/search?q=canary&only=jobs").json()
    assert [job["name"] for job in rest["jobs"]] == ["canary-job"]
    assert rest["people"] == []


def test_people_are_those_of_queues_that_one_sees(world: World) -> None:
    """A member of another queue is unknown; an admin finds all and is led to their page."""
    assert "/jobs?owner=lea" in page(world.client("member"), "@lea")
    assert "/jobs?owner=oz" not in page(world.client("member"), "@oz")
    assert "/admin/users/oz" in page(world.client("admin"), "@oz")


def test_queues_are_those_that_one_sees(world: World) -> None:
    """The other team's queue is not there."""
    assert 'href="/queues/vision"' in page(world.client("member"), "visi")
    assert 'href="/queues/speech"' not in page(world.client("member"), "speech").split('id="hits"')[1]


@pytest.mark.parametrize(
    ("role", "offered", "withheld"),
    [
        ("viewer", [], ["/jobs/new", "/whatif/new", "/drain", 'href="/admin"']),
        ("member", ["/jobs/new"], ["/whatif/new", "/drain", 'href="/admin"']),
        ("lead", ["/jobs/new", "/whatif/new"], ["/drain", 'href="/admin"']),
        ("admin", ["/jobs/new", "/whatif/new", 'href="/admin"'], []),
    ],
)
def test_actions_are_those_of_the_role(world: World, role: str, offered: list[str], withheld: list[str]) -> None:
    """What one may not do is not listed."""
    found = page(world.client(role), ">").split('id="hits"')[1].split("</section>")[0]

    assert all(href in found for href in offered)
    assert not any(href in found for href in withheld)


def test_a_server_can_be_drained_by_an_admin_who_is_asked_first(world: World) -> None:
    """The action leads to the page that asks."""
    assert 'href="/cluster/server-01/drain"' in page(world.client("admin"), "server-0")
    assert "/drain" not in page(world.client("lead"), "server-0")


def test_prefixes_narrow_and_odd_letters_do_no_harm(world: World) -> None:
    """# jobs, @ people, > actions; markup is text."""
    only_jobs = page(world.client("admin"), "#vision")
    assert 'data-group="queues"' not in only_jobs
    odd = page(world.client("member"), '<script>"x')
    assert "<script>&quot;x" not in odd
    assert "Nothing is called &lt;script&gt;" in odd
    for q in ("", " ", "#", "@", ">", "%", "_", "\x00", "x" * 500, "J-99999999999999999999"):
        assert world.client("member").get("/search", {"q": q}).status_code == 200


def test_own_open_jobs_come_first(world: World) -> None:
    """Then the newest; one line leads to all when there are more."""
    job_make(world.vision, state=JobState.COMPLETED, owner=world.users["member"], name="canary-done")
    for number in range(4):
        job_make(world.vision, state=JobState.QUEUED, owner=world.users["lead"], name=f"canary-{number}")

    found = search(world.users["member"], "canary", AT)

    assert [job["name"] for job in found["jobs"]] == ["canary-job", "canary-3", "canary-2"]
    assert found["more_jobs"]


def test_more_to_find_costs_no_more_queries(
    world: World, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    """A handful, however much matches."""
    for number in range(8):
        server_make(f"canary-{number}", gpus=2)
        member_make(world.vision, name=f"canary-user-{number}")
        job_make(world.vision, state=JobState.QUEUED, name=f"canary-more-{number}")
    with django_assert_max_num_queries(11):
        search(world.users["member"], "canary", AT)
