"""Templates of a queue and views of the list: kept, begun from, removed, and seen by nobody else."""

import json

from scheduler.core.model.lifecycle import JobState
from scheduler.models import Event, SavedView, SpecTemplate
from tests.integration.pages_jobs.conftest import World, job_in
from tests.integration.pages_jobs.test_form import FIELDS, value_of


def test_form_is_kept_as_a_template_and_others_of_the_queue_begin_from_it(world: World) -> None:
    """The name comes first, the fields are filled, the queue is that of the template."""
    mia = world.browser("member")
    page = mia.send("/jobs/new", {**FIELDS, "memory": "4Gi", "action": "template", "template_name": "two slots"})
    template = SpecTemplate.objects.get()
    lead = world.browser("lead").open("/jobs/new", **{"from": str(template.pk)})

    assert "two slots is a template of vision now." in page.text
    assert template.spec["resources"] == {"gpus": 2, "memory": "4Gi"}
    assert "queue" not in template.spec
    assert value_of(lead, "memory") == "4Gi"
    assert "Filled from the template two slots of vision" in lead.text
    assert Event.objects.get(kind="template").actor == "mia"


def test_template_needs_no_whole_spec_but_a_right_one(world: World) -> None:
    """What is missing is left open; what is wrong stands at its field, and nothing is kept."""
    browser = world.browser("member")
    part = {"mode": "form", "queue": "vision", "gpus": "2", "preemptible": "on", "action": "template"}
    wrong = browser.send("/jobs/new", {**part, "memory": "many", "template_name": "bad"})
    nameless = browser.send("/jobs/new", {**part, "template_name": ""})
    browser.send("/jobs/new", {**part, "template_name": "small"})

    assert "must be a number with a unit" in wrong.text
    assert "needs at least 1 characters" in nameless.text
    assert [template.name for template in SpecTemplate.objects.all()] == ["small"]


def test_templates_are_removed_by_their_maker_and_unknown_to_strangers(world: World) -> None:
    """A question first; another queue's members get 404."""
    browser = world.browser("member")
    browser.send("/jobs/new", {**FIELDS, "action": "template", "template_name": "mine"})
    pk = SpecTemplate.objects.get().pk
    hidden = world.browser("outsider").open("/jobs/new", **{"from": str(pk)})
    asked = browser.open(f"/jobs/templates/{pk}/remove")
    browser.send(f"/jobs/templates/{pk}/remove")

    assert hidden.status == 404
    assert "Remove the template mine?" in asked.text
    assert not SpecTemplate.objects.exists()


def test_template_by_rest(world: World) -> None:
    """The same rules: a bad value names its field, a second one of a name is refused."""
    client = world.browser("member").client

    def post(**body: object) -> int:
        return int(client.post("/api/v1/templates", json.dumps(body), content_type="application/json").status_code)

    first = post(queue="vision", name="a", spec={"resources": {"gpus": 1}, "queue": "speech"})
    again = post(queue="vision", name="a", spec={})
    wrong = client.post(
        "/api/v1/templates",
        json.dumps({"queue": "vision", "name": "b", "spec": {"cpu": 1}}),
        content_type="application/json",
    )

    assert (first, again, wrong.status_code) == (201, 400, 400)
    assert wrong.json()["errors"][0]["pointer"] == "/spec/cpu"
    assert [row["name"] for row in client.get("/api/v1/templates").json()["results"]] == ["a"]


def test_filters_are_kept_as_a_view_of_ones_own(world: World) -> None:
    """A name for the present address; the same name again replaces it; nobody else sees or removes it."""
    job_in(world, JobState.QUEUED)
    browser = world.browser("member")
    browser.send("/jobs/views", {"name": "waiting", "query": "state=queued"})
    page = browser.send("/jobs/views", {"name": "waiting", "query": "state=queued&owner=me"})
    view = SavedView.objects.get()
    foreign = world.browser("lead").send(f"/jobs/views/{view.pk}/remove")
    gone = browser.send(f"/jobs/views/{view.pk}/remove")

    assert page.having(href="/jobs?state=queued&owner=me")
    assert foreign.status == 404
    assert "The view is removed." in gone.text
    assert not SavedView.objects.exists()
