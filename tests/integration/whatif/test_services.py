"""Who may ask what-if questions and see the answers; what is refused, field by field."""

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from scheduler import notify
from scheduler.core.model.errors import Conflict, NotAllowed, NotFound, SpecInvalid
from scheduler.core.model.lifecycle import JobState
from scheduler.models import Cluster, Event, Job, Membership, Queue, Scenario, ScenarioRun
from scheduler.models.queue import Role
from scheduler.models.scenario import ScenarioState
from scheduler.selectors.visibility import groups_allowed, require_scenario, scenarios_visible
from scheduler.services.cluster.settings import cluster_row
from scheduler.services.whatif.scenarios import (
    MOST_OPEN_OF_USER,
    scenario_cancel,
    scenario_create,
    scenario_delete,
)
from tests.support.live.ports import MemoryBell
from tests.support.pages.world import runs_answer
from tests.support.rows.factories import AT, job_make, member_make, queue_make, server_make, user_make
from tests.support.rows.scenarios import scenario_body, scenario_make, trace_file_make

pytestmark = pytest.mark.django_db
PAST = {"kind": "past", "since": AT.isoformat(), "until": (AT + timedelta(hours=1)).isoformat()}


@pytest.fixture(autouse=True)
def _quiet(settings: Any, tmp_path: Path) -> Iterator[None]:  # pytest-django's settings take any name
    """Static files as they lie in the tree, no broker."""
    settings.STATIC_ROOT = tmp_path
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": plain}
    notify.use_bell(MemoryBell())
    yield
    notify.use_bell(None)


def refused(body: dict[str, Any]) -> set[str]:
    """Return the pointers of what is wrong with a scenario."""
    with pytest.raises(SpecInvalid) as error:
        scenario_create(actor=user_make(admin=True), body=body, at=AT)
    assert all(entry.detail.endswith(".") for entry in error.value.errors)
    return {entry.pointer for entry in error.value.errors}


@pytest.mark.parametrize("role", [Role.VIEWER, Role.MEMBER])
def test_members_ask_nothing_and_see_nothing(role: Role) -> None:
    """A what-if question is for leads and admins; the pages do not exist for others."""
    queue = queue_make("vision")
    user, other = member_make(queue, role), scenario_make(user_make(admin=True))
    client = Client()
    client.force_login(user)

    with pytest.raises(NotAllowed):
        scenario_create(actor=user, body=scenario_body(), at=AT)
    with pytest.raises(NotFound):
        require_scenario(user, other.pk)
    assert not groups_allowed(user, f"scenario.{other.pk}")
    assert [client.get(path).status_code for path in ("/whatif", "/whatif/new", f"/whatif/{other.pk}")] == [404] * 3
    assert b"What-if" not in client.get("/jobs").content


@pytest.mark.parametrize("start", [{"kind": "live"}, PAST], ids=["live", "past"])
def test_leads_ask_about_what_they_bring_not_about_the_cluster(start: dict[str, Any]) -> None:
    """Jobs of other queues are nobody's but the admins'."""
    lead = member_make(queue_make("vision"), Role.LEAD)

    with pytest.raises(NotAllowed, match="Only an admin may ask about the jobs of the cluster"):
        scenario_create(actor=lead, body=scenario_body(start=start), at=AT)
    own = scenario_create(actor=lead, body=scenario_body(), at=AT)

    assert list(scenarios_visible(lead)) == [own]


def test_lead_asks_for_other_quotas_of_an_own_queue_and_nothing_else() -> None:
    """Under the settings in force, for one queue; leads of that queue open its link, and only the asker ends it."""
    vision, nlp = queue_make("vision"), queue_make("nlp")
    lead, other = member_make(vision, Role.LEAD), member_make(vision, Role.LEAD)

    def ask(*variants: dict[str, Any]) -> Scenario:
        return scenario_create(actor=lead, body=scenario_body(start={"kind": "live"}, variants=list(variants)), at=AT)

    asked = ask({"quotas": {"vision": 4}}, {"quotas": {"vision": 8}})

    assert asked.for_queue == vision
    assert asked.variants[0]["policy"] == cluster_row().policy
    assert list(scenarios_visible(lead)) == [asked]
    assert list(scenarios_visible(other)) == [asked]
    assert not scenarios_visible(member_make(nlp, Role.LEAD)).exists()
    for end in (scenario_cancel, scenario_delete):
        with pytest.raises(NotAllowed, match=f"Only {lead.username}, who asked it"):
            end(actor=other, scenario=asked, at=AT)
    for wrong in (
        {"quotas": {"nlp": 8}},
        {"quotas": {"vision": 8, "nlp": 2}},
        {"quotas": {"vision": 8}, "policy": "srtf"},
        {"quotas": {"vision": 8}, "servers": 1},
    ):
        with pytest.raises(NotAllowed, match="Only an admin may ask"):
            ask({"quotas": {"vision": 4}}, wrong)
    Membership.objects.filter(user=lead).delete()
    Membership.objects.create(user=lead, queue=nlp, role=Role.LEAD)
    assert not scenarios_visible(lead).exists()


def test_scenario_about_the_cluster_is_gone_for_one_who_is_no_admin_any_more() -> None:
    """What an admin asked about everybody's jobs does not follow them out of the role."""
    user = member_make(queue_make("vision"), Role.LEAD)
    user.is_superuser = True
    user.save()
    asked = scenario_create(actor=user, body=scenario_body(start={"kind": "live"}), at=AT)
    assert list(scenarios_visible(user)) == [asked]

    user.is_superuser = False
    user.save()

    assert not scenarios_visible(user).exists()
    assert not groups_allowed(user, f"scenario.{asked.pk}")


def test_another_leads_scenario_and_trace_are_not_found() -> None:
    """Leads see their own."""
    queue = queue_make("vision")
    one, other = member_make(queue, Role.LEAD), member_make(queue, Role.LEAD)
    file = trace_file_make(one)
    asked = scenario_make(one)

    with pytest.raises(NotFound):
        require_scenario(other, asked.pk)
    with pytest.raises(SpecInvalid, match="file"):
        scenario_create(actor=other, body=scenario_body(start={"kind": "trace", "file": file.pk}), at=AT)


def test_every_bad_field_is_named() -> None:
    """Nothing is stored, and each entry says what would be right."""
    assert refused({}) == {"/name", "/start/kind", "/variants", "/seeds"} - {"/seeds"}
    assert refused(scenario_body(variants=[{"policy": "las"}])) == {"/variants"}
    assert refused(scenario_body(variants=[{"policy": "las"}, {"policy": "las"}])) == {"/variants/1"}
    assert refused(scenario_body(variants=[{"policy": "nope"}, {"servers": "two"}])) == {
        "/variants/0/policy",
        "/variants/1/servers",
    }
    bad = [{"policy": "las", "policy_options": {"promote_after": -1}}, {"policy": "srtf", "load": 0}]
    assert refused(scenario_body(variants=bad)) == {"/variants/0/policy_options/promote_after", "/variants/1/load"}
    assert refused(scenario_body(seeds=[1, 1])) == {"/seeds"}
    assert refused(scenario_body(start={"kind": "generator", "text": "philly?jobs=9999999"})) == {"/start/text"}
    assert refused(scenario_body(start={**PAST, "until": PAST["since"]})) == {"/start/until"}
    assert refused(scenario_body(start={"kind": "live"}, variants=[{"load": 2}, {"policy": "fifo"}])) == {
        "/variants/0/load"
    }
    assert not Scenario.objects.exists()


def test_one_user_asks_only_so_much_at_once() -> None:
    """The cores are shared."""
    user = user_make(admin=True)
    for _ in range(MOST_OPEN_OF_USER):
        scenario_create(actor=user, body=scenario_body(), at=AT)

    with pytest.raises(Conflict, match="still run"):
        scenario_create(actor=user, body=scenario_body(), at=AT)


def test_asking_and_deleting_are_audited() -> None:
    """Who asked what stands in the list of changes."""
    user = user_make(admin=True)
    ended = scenario_make(user, state=ScenarioState.COMPLETED)
    scenario_create(actor=user, body=scenario_body(), at=AT)

    scenario_delete(actor=user, scenario=ended, at=AT)

    assert list(Event.objects.filter(kind="whatif").order_by("id").values_list("reason", flat=True)) == [
        "create",
        "delete",
    ]


def test_only_an_admin_applies_a_variant_and_only_on_the_settings_as_seen() -> None:
    """The button goes through the settings with their version."""
    admin, lead = user_make(admin=True), member_make(queue_make("vision"), Role.LEAD)
    asked = scenario_make(lead, state=ScenarioState.COMPLETED)
    version = cluster_row().settings_version
    clients = {"lead": Client(), "admin": Client()}
    clients["lead"].force_login(lead)
    clients["admin"].force_login(admin)
    form = {"variant": "1", "version": str(version), "reason": "waits fall by a third"}

    forbidden = clients["lead"].post(f"/whatif/{asked.pk}/apply", form)
    stale = clients["admin"].post(f"/whatif/{asked.pk}/apply", {**form, "version": "99"})
    before = cluster_row().policy
    unsaid = clients["admin"].post(f"/whatif/{asked.pk}/apply", {**form, "reason": " "}, follow=True)
    kept = cluster_row().policy
    applied = clients["admin"].post(f"/whatif/{asked.pk}/apply", form)

    assert (forbidden.status_code, stale.status_code, applied.status_code) == (403, 302, 302)
    assert (before, kept, cluster_row().policy) == ("las", "las", "srtf")
    assert "Why needs" in unsaid.content.decode()
    told = Event.objects.get(kind="settings").data
    assert (told["reason"], told["scenario"], told["scenario_name"]) == (form["reason"], asked.pk, asked.name)
    assert f"after the what-if {asked.name}" in clients["admin"].get("/admin").content.decode()


def test_a_scenario_says_which_variant_was_applied() -> None:
    """By whom and why, for all who see it; admins are led to the entry. What is in force already changes nothing."""
    admin, lead = user_make("ada", admin=True), member_make(queue_make("vision"), Role.LEAD)
    asked = scenario_make(lead, state=ScenarioState.COMPLETED)
    clients = [Client(), Client()]
    for client, user in zip(clients, (admin, lead), strict=True):
        client.force_login(user)
    form = {"variant": "1", "reason": "waits fall by a third"}
    pages = [client.get(f"/whatif/{asked.pk}").content.decode() for client in clients]
    assert not any("applied" in page for page in pages)

    for _ in range(2):
        version = cluster_row().settings_version
        said = clients[0].post(f"/whatif/{asked.pk}/apply", {**form, "version": version}, follow=True).content.decode()

    entry = Event.objects.get(kind="settings")
    for_admin, for_lead = (" ".join(client.get(f"/whatif/{asked.pk}").content.decode().split()) for client in clients)
    assert "decide already. Nothing was changed." in said
    assert "ada applied srtf" in for_admin
    assert "ada applied srtf" in for_lead
    assert "waits fall by a third" in for_lead
    link = f"/admin/audit?kind=settings&amp;before={entry.pk + 1}"
    assert link in for_admin
    assert link not in for_lead
    assert "waits fall by a third" in clients[0].get(link.replace("&amp;", "&")).content.decode()


def test_finished_variants_are_shown_while_a_slow_one_runs_and_after_a_cancel(tmp_path: Path) -> None:
    """Figures of what is done beside the progress of the rest; which is best is told when all are done."""
    admin, client = user_make(admin=True), Client()
    client.force_login(admin)
    asked = scenario_make(admin, state=ScenarioState.RUNNING)
    before = client.get(f"/whatif/{asked.pk}").content.decode()
    runs_answer(asked, ScenarioRun.objects.filter(scenario=asked, variant=0), tmp_path)

    during = client.get(f"/whatif/{asked.pk}")
    Scenario.objects.filter(pk=asked.pk).update(state=ScenarioState.CANCELLED, ended_at=AT)
    after = client.get(f"/whatif/{asked.pk}")

    assert 'id="figures"' not in before
    for answer in (during, after):
        html = answer.content.decode()
        assert 'id="figures"' in html
        assert 'id="progress"' in html
        assert [line.name for line in answer.context["shown"].rows] == answer.context["names"][:1]
        assert not any(cell.wins for cell in answer.context["shown"].rows[0].cells)
        assert "/apply" not in html


def test_compare_first_keeps_what_was_edited_and_saves_nothing() -> None:
    """The second variant of the question is the edited form; the first is what decides now."""
    client = Client()
    client.force_login(user_make(admin=True))
    form = {
        "do": "compare", "policy": "gittins", "locality": "relax", "mechanism": "tune", "smoke_run_s": "0",
        "policy.gittins.history": "321",
    }  # fmt: skip

    answer = client.post("/admin", form)
    page = client.get(answer["Location"])

    first, second = page.context["variants"]
    chosen = [
        {part.name: [c.name for c in part.choices if c.chosen] for part in one.sections} for one in (first, second)
    ]
    assert (chosen[0]["policy"], chosen[1]["policy"], chosen[1]["locality"]) == (["las"], ["gittins"], ["relax"])
    assert page.context["fields"]["kind"] == "live"
    assert cluster_row().settings_version == 1
    assert client.get("/whatif/new?settings=%7B%22policy%22%3A7%7D").status_code == 200
    assert client.get("/whatif/new?settings=nonsense").status_code == 200


def test_least_run_is_compared_and_kept_where_a_question_leaves_it_out() -> None:
    """*Compare first* asks about it alone; a variant that says nothing of it would not change it when applied."""
    Cluster.objects.update_or_create(pk=1, defaults={"min_run_s": 300.0})
    client = Client()
    client.force_login(user_make(admin=True))
    form = {"do": "compare", "policy": "las", "locality": "consolidate", "mechanism": "tune", "min_run_s": "60"}

    page = client.get(client.post("/admin", form)["Location"])
    asked = client.post("/api/v1/whatif", json.dumps(scenario_body()), content_type="application/json").json()

    assert [variant.least_run for variant in page.context["variants"]] == ["300", "60"]
    assert {variant["min_run_s"] for variant in Scenario.objects.get(pk=asked["id"]).variants} == {300.0}


def test_form_keeps_what_was_typed_and_says_what_is_wrong() -> None:
    """A refused form comes back with its values."""
    client = Client()
    client.force_login(user_make(admin=True))
    sent = {
        "do": "ask", "variants": "2", "name": "", "kind": "generator", "generator": "philly", "jobs": "50",
        "v0.policy": "las", "v0.locality": "consolidate", "v0.mechanism": "tune", "v0.quotas": "vision=lots",
        "v1.policy": "srtf", "v1.locality": "consolidate", "v1.mechanism": "tune", "seeds": "1, 2", "round_s": "60",
    }  # fmt: skip

    answer = client.post("/whatif/new", sent)
    more = client.post("/whatif/new", {**sent, "do": "add"})

    text = answer.content.decode()
    assert answer.status_code == 422
    assert "name needs at least 1 characters" in text
    assert "vision=lots" in text
    assert more.content.decode().count("Variant 3") == 1


def silent_cluster(*, completed: int) -> None:
    """One job runs and does not tell how long it takes; so many have completed before."""
    server, queue = server_make("gpu-01", gpus=4), queue_make("vision", quota_gpus=4)
    for _ in range(completed):
        job_make(queue, state=JobState.COMPLETED, server=server, executed_s=600.0)
    job_make(queue, state=JobState.RUNNING, server=server)


def test_live_start_without_history_is_refused_before_any_run() -> None:
    """Page and REST name the field, what is missing, and what to do; the fifth completed job changes the answer."""
    silent_cluster(completed=4)
    client = Client()
    client.force_login(user_make(admin=True))
    body = scenario_body(start={"kind": "live"})
    sent = {
        "do": "ask", "variants": "2", "name": "Now", "kind": "live", "v0.policy": "las", "v1.policy": "srtf",
        "v0.locality": "any", "v0.mechanism": "tune", "v1.locality": "any", "v1.mechanism": "tune", "seeds": "1",
    }  # fmt: skip

    by_page = client.post("/whatif/new", sent)
    by_rest = client.post("/api/v1/whatif", json.dumps(body), content_type="application/json")

    said = (
        "1 of 1 jobs that run or wait do not tell yet how long they take, and 4 have completed, where 5 are needed "
        "to guess it. Ask again when 1 more has completed, or start from a trace or a generator."
    )
    assert (by_page.status_code, by_rest.status_code) == (422, 400)
    assert said in by_page.text
    assert by_rest.json()["errors"] == [{"pointer": "/start/kind", "code": "no_history", "detail": said}]
    assert not Scenario.objects.exists()
    job_make(Queue.objects.get(name="vision"), state=JobState.COMPLETED, server=server_make(), executed_s=600.0)
    assert client.post("/api/v1/whatif", json.dumps(body), content_type="application/json").status_code == 202


def test_live_start_of_jobs_that_tell_their_length_needs_no_history() -> None:
    """Steps left and their rate are enough."""
    silent_cluster(completed=0)
    Job.objects.update(step=10, total_steps=100, steps_per_s=1.0)

    assert scenario_create(actor=user_make(admin=True), body=scenario_body(start={"kind": "live"}), at=AT)


def test_document_is_json_all_the_way() -> None:
    """What REST gives can be sent again."""
    client = Client()
    client.force_login(user_make(admin=True))
    asked = client.post("/api/v1/whatif", json.dumps(scenario_body()), content_type="application/json").json()

    variants = [{key: value for key, value in one.items() if key != "name"} for one in asked["variants"]]
    body = {"name": "Again", "start": asked["start"], "variants": variants, "seeds": asked["seeds"]}
    again = client.post("/api/v1/whatif", json.dumps(body), content_type="application/json")

    assert again.status_code == 202, again.content
