"""What people change in the pages: quotas, members, servers, settings. Every form works without scripts."""

import re
from typing import Any

import pytest
from django.test import Client

from frontend.pages.cluster.words import LAST_UP
from scheduler.models import Gpu, Membership, Queue, Server
from scheduler.models.queue import Role
from scheduler.models.server import ServerState
from scheduler.services.cluster.settings import cluster_row
from tests.integration.page_frame.frame_world import World, world_make
from tests.support.rows.factories import user_make

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("plain_static")]
PATH = "/queues/canary-vision"


@pytest.fixture
def world() -> World:
    return world_make()


def quota(world: World, **changes: Any) -> dict[str, Any]:
    """Return a sent quota form."""
    fields = {"do": "quota", "quota_gpus": 3, "max_gpus": "", "weight": 1, "may_borrow": "on", "reason": "until Friday"}
    return {**fields, "version": Queue.objects.get(pk=world.vision.pk).version, **changes}


@pytest.mark.parametrize("role", ["org lead", "admin"])
def test_quota_is_changed_with_a_reason(world: World, role: str) -> None:
    """The lead of the queue above and an admin change it; the reason is in the feed."""
    client = world.client(role)
    response = client.post(PATH, quota(world), follow=True)
    html = response.content.decode()

    assert Queue.objects.get(pk=world.vision.pk).quota_gpus == 3
    assert "Quota of canary-vision is 3 from the next round." in html
    assert "until Friday" in html


@pytest.mark.parametrize("role", ["viewer", "member", "lead"])
def test_quota_form_is_not_for_those_below(world: World, role: str) -> None:
    """Who may not change the quota has no form, and a sent one is refused."""
    client = world.client(role)

    assert 'id="quota-form"' not in client.get(PATH).content.decode()
    assert client.post(PATH, quota(world)).status_code == 403
    assert Queue.objects.get(pk=world.vision.pk).quota_gpus == 2


def test_a_quota_that_does_not_add_up_is_refused_at_its_field(world: World) -> None:
    """The form comes back with what was typed and the sentence that names the numbers."""
    response = world.client("org lead").post(PATH, quota(world, quota_gpus=99))
    html = response.content.decode()

    assert response.status_code == 422
    assert 'value="99"' in html
    assert "quota may be at most 6" in html
    assert 'aria-invalid="true"' in html


def test_only_admins_are_offered_to_make_and_change_leads(world: World) -> None:
    """What a lead would be refused is not on the page, and the form says who may."""
    lead, admin = (world.client(who).get(f"{PATH}?tab=members").content.decode() for who in ("lead", "admin"))

    assert '<option value="lead"' not in lead
    assert '<option value="member"' in lead
    assert "Admins make and change leads." in lead
    assert '<option value="lead"' in admin
    assert admin.count('class="member-acts"') > lead.count('class="member-acts"') > 0


def test_leads_are_not_offered_to_make_leads_after_a_refused_role_either(world: World) -> None:
    """The form comes back with the roles it had, and a role that is not among them is refused by the service."""
    client = world.client("lead")
    unknown, refused = (
        client.post(f"{PATH}?tab=members", {"do": "member", "username": name, "role": role})
        for name, role in (("nobody", "member"), ("canary-mia", "lead"))
    )

    assert (unknown.status_code, refused.status_code) == (422, 403)
    for response in (unknown, refused):
        assert '<option value="lead"' not in response.content.decode()
    assert '<option value="member" selected' in unknown.content.decode()


def test_a_quota_without_a_reason_is_refused(world: World) -> None:
    """Nobody changes a quota without saying why."""
    response = world.client("admin").post(PATH, quota(world, reason=""))

    assert response.status_code == 422
    assert Queue.objects.get(pk=world.vision.pk).quota_gpus == 2


def test_two_leads_who_edit_at_once_do_not_overwrite_each_other(world: World) -> None:
    """The second sees who was first, keeps what they typed, and may save again."""
    old = quota(world, quota_gpus=4)
    world.client("admin").post(PATH, quota(world, quota_gpus=3))
    client = world.client("org lead")
    late = client.post(PATH, old)
    html = late.content.decode()
    again = client.post(PATH, quota(world, quota_gpus=4))

    assert late.status_code == 409
    assert "ada changed it" in html
    assert 'value="4"' in html
    assert again.status_code == 302
    assert Queue.objects.get(pk=world.vision.pk).quota_gpus == 4


def test_a_lead_gives_and_takes_roles(world: World) -> None:
    """A lead makes somebody a member and takes the role away again."""
    user_make("newcomer")
    client = world.client("lead")
    client.post(PATH, {"do": "member", "username": "newcomer", "role": Role.MEMBER})
    given = Membership.objects.filter(queue=world.vision, user__username="newcomer").values_list("role", flat=True)

    assert list(given) == [Role.MEMBER]

    client.post(PATH, {"do": "remove", "username": "newcomer"})

    assert not Membership.objects.filter(queue=world.vision, user__username="newcomer").exists()


@pytest.mark.parametrize(
    ("role", "sent", "status"),
    [
        ("member", {"do": "member", "username": "otto", "role": Role.VIEWER}, 403),
        ("lead", {"do": "member", "username": "otto", "role": Role.LEAD}, 403),
        ("lead", {"do": "member", "username": "nobody-of-this-name", "role": Role.VIEWER}, 422),
        ("lead", {"do": "member", "username": "otto", "role": "emperor"}, 422),
    ],
)
def test_roles_are_not_given_beyond_the_own_right(world: World, role: str, sent: dict[str, str], status: int) -> None:
    """Members give no roles, leads make no leads, and what is no user or role is refused at the field."""
    response = world.client(role).post(PATH, sent)

    assert response.status_code == status
    assert Membership.objects.filter(queue=world.vision).count() == 3


def test_an_admin_drains_a_server_and_undrains_it(world: World) -> None:
    """Draining asks for a reason, which stands on the server's page."""
    client = world.client("admin")
    address = f"/cluster/{world.server.pk}"
    refused = client.post(f"{address}/drain", {"reason": ""})
    drained = client.post(f"{address}/drain", {"reason": "new power supply"}, follow=True)

    assert refused.status_code == 422
    assert Server.objects.get(pk=world.server.pk).state == "draining"
    assert "new power supply" in drained.content.decode()

    unasked = client.post(f"{address}/undrain")
    asked = client.get(f"{address}/undrain").content.decode()
    assert ">Keep</a>" in asked  # the word of the drain dialog
    assert Server.objects.get(pk=world.server.pk).state == "draining"
    client.post(f"{address}/undrain", {"reason": "it works"})

    assert unasked.status_code == 422
    assert re.search(r'/undrain">[^\n]* Undrain</a>', drained.content.decode())
    assert f"Undrain {world.server.name}?" in asked
    assert Server.objects.get(pk=world.server.pk).state == "up"


@pytest.mark.parametrize(
    ("state", "works", "is_last"),
    [
        (ServerState.UP, True, False),
        (ServerState.UP, False, True),
        (ServerState.DRAINING, True, True),
        (ServerState.LOST, True, True),
    ],
)
def test_drain_says_when_no_other_server_takes_jobs(
    world: World, state: ServerState, works: bool, is_last: bool
) -> None:
    """In the dialog of the server's page and in the form that asks why."""
    Server.objects.filter(name="server-2").update(state=state)
    Gpu.objects.filter(server__name="server-2").update(healthy=works)
    client = world.client("admin")
    pages = [client.get(f"/cluster/{world.server.pk}{path}").content.decode() for path in ("", "/drain")]

    assert [LAST_UP in html for html in pages] == [is_last, is_last]


def test_jobs_of_the_last_server_wait_and_move_nowhere(world: World) -> None:
    """Its drain tells of no room elsewhere."""
    Server.objects.filter(name="server-2").update(state=ServerState.LOST)
    html = world.client("admin").get(f"/cluster/{world.server.pk}/drain").content.decode()

    assert "Each is asked to save and waits;" in html
    assert "where there is room" not in html


def test_claimed_size_stands_on_every_page_of_an_admin_who_confirms_it(world: World) -> None:
    """The two sizes beside each other, and one button; nobody else is asked."""
    client = world.client("admin")
    size = {"num_cpus": 3_999, "memory_bytes": 2**40, "num_gpus": 64, "gpu_memory_bytes": 0}
    Server.objects.filter(pk=world.server.pk).update(claimed_size=size)
    address, band = f"/cluster/{world.server.pk}", "grew too far to be believed"
    page = client.get(address).content.decode()

    assert band in client.get("/").content.decode()
    assert band not in world.client("lead").get("/").content.decode()
    assert 'value="3999"' in page
    assert "Confirm the reported size" in page
    assert "Confirm the reported size" not in world.client("lead").get(address).content.decode()
    assert world.client("lead").post(f"{address}/size", {**size, "reason": "new"}).status_code == 403

    client.post(f"{address}/size", {**size, "num_cpus": 8, "reason": "new"})
    client.post(f"{address}/size", size)
    assert Server.objects.get(pk=world.server.pk).claimed_size == size
    client.post(f"{address}/size", {**size, "reason": "new"})

    assert Server.objects.get(pk=world.server.pk).claimed_size is None
    assert Server.objects.get(pk=world.server.pk).trusted_size == size
    assert band not in client.get("/").content.decode()


@pytest.mark.parametrize("role", ["outsider", "lead", "org lead"])
def test_only_admins_drain(world: World, role: str) -> None:
    """A lead of a queue does not take servers away from everybody."""
    client = world.client(role)
    address = f"/cluster/{world.server.pk}"

    assert client.post(f"{address}/drain", {"reason": "because"}).status_code == 403
    assert client.post(f"{address}/undrain", {"reason": "because"}).status_code == 403
    assert Server.objects.get(pk=world.server.pk).state == "up"


def settings_form(**changes: Any) -> dict[str, Any]:
    """Return a sent settings form."""
    fields = {"policy": "las", "locality": "consolidate", "mechanism": "tune", "mechanism.tune.sort_by_demand": "on"}
    fields["reason"] = "as agreed"
    return {**fields, "version": cluster_row().settings_version, **changes}


def test_an_admin_changes_the_policy_and_its_options(world: World) -> None:
    """The change holds from the next round, and the page says which that is."""
    sent = settings_form(**{"policy.las.queue_limits_gpu_s": "100, 2000"})
    response = world.client("admin").post("/admin", sent, follow=True)
    cluster = cluster_row()

    assert cluster.policy_options == {"queue_limits_gpu_s": [100.0, 2000.0]}
    assert cluster.mechanism_options == {}
    assert "from round 2." in response.content.decode()


def test_bad_options_are_refused_at_their_field(world: World) -> None:
    """Text that is no number comes back with the sentence of the scheduler, and nothing is changed."""
    response = world.client("admin").post("/admin", settings_form(**{"policy.las.queue_limits_gpu_s": "a lot"}))
    html = response.content.decode()

    assert response.status_code == 422
    assert 'value="a lot"' in html
    assert cluster_row().settings_version == 1


def test_an_option_with_fixed_values_is_a_list(world: World) -> None:
    """Whose share counts under drf is picked, not typed; what was picked is shown again."""
    client = world.client("admin")
    response = client.post("/admin", settings_form(policy="drf", **{"policy.drf.by": "job"}), follow=True)

    assert cluster_row().policy_options == {"by": "job"}
    assert "<option selected>job</option><option>user</option>" in response.content.decode()

    response = client.post("/admin", settings_form(policy="drf", **{"policy.drf.by": "moon"}))

    assert response.status_code == 422
    assert "by is one of job, user." in response.content.decode()


def test_an_admin_chooses_what_is_tried_on_running_jobs(world: World) -> None:
    """Any number of introspections, each with its options; what is no longer chosen takes its options along."""
    client = world.client("admin")
    both = {"introspection.slicing": "on", "introspection.packing": "on", "introspection.slicing.quantum_s": "30"}
    html = client.post("/admin", settings_form(**both), follow=True).content.decode()
    cluster = cluster_row()

    assert cluster.introspection == ["slicing", "packing"]
    assert cluster.introspection_options == {"slicing": {"quantum_s": 30.0}}
    assert 'name="introspection.slicing" checked' in html

    response = client.post("/admin", settings_form(**{**both, "introspection.slicing.quantum_s": "0"}))

    assert response.status_code == 422
    assert 'id="id_introspection_slicing_quantum_s_note"' in response.content.decode()

    client.post("/admin", settings_form(), follow=True)

    assert cluster_row().introspection == []
    assert cluster_row().introspection_options == {}


def test_stale_settings_are_refused(world: World) -> None:
    """Who saves over somebody else's change is told and may compare."""
    client = world.client("admin")
    old = settings_form(policy="fifo")
    client.post("/admin", settings_form(policy="srtf"))
    response = client.post("/admin", old)

    assert response.status_code == 409
    assert cluster_row().policy == "srtf"


def test_scheduling_is_paused_and_goes_on(world: World) -> None:
    """While it is paused every page says so."""
    client = world.client("admin")
    client.post("/admin/pause", {"paused": "1", "version": cluster_row().settings_version, "reason": "power is cut"})

    assert cluster_row().paused
    assert "An admin paused scheduling" in world.client("member").get("/queues").content.decode()

    client.post("/admin/pause", {"paused": "0", "version": cluster_row().settings_version, "reason": "power is back"})

    assert not cluster_row().paused


@pytest.mark.parametrize("role", ["outsider", "lead", "org lead"])
def test_only_admins_change_settings(world: World, role: str) -> None:
    """For others the addresses do not exist."""
    client = world.client(role)

    assert client.post("/admin", settings_form(policy="fifo")).status_code == 404
    assert client.post("/admin/pause", {"paused": "1", "version": 1}).status_code == 404
    assert cluster_row().policy == "las"


@pytest.mark.parametrize("path", [PATH, "/admin", "/admin/pause", "/cluster/server-1/drain", "/me", "/me/theme"])
def test_forms_of_other_sites_are_refused(world: World, path: str) -> None:
    """Without the token of its own page no form is taken."""
    client = Client(enforce_csrf_checks=True)
    client.force_login(world.users["admin"])

    assert client.post(path, {}).status_code == 403


def test_an_admin_sets_what_a_user_may_take(world: World) -> None:
    """The page shows the limits, takes whole numbers, and says what would be right."""
    client = world.client("admin")
    assert b'name="user_most_queued" value="5000"' in client.get("/admin").content
    client.post("/admin", settings_form(user_most_queued="300", experiment_most_jobs="40"))
    assert (cluster_row().user_most_queued, cluster_row().experiment_most_jobs) == (300, 40)
    response = client.post("/admin", settings_form(user_most_queued="many"))

    assert response.status_code == 422
    assert b"Jobs that a user may have queued must be a whole number from 1 to 1,000,000." in response.content


def test_an_admin_sets_how_long_smoke_runs_are(world: World) -> None:
    """The form takes a number of seconds and says what is wrong with anything else."""
    client = world.client("admin")
    client.post("/admin", settings_form(smoke_run_s="90"))
    assert cluster_row().smoke_run_s == 90.0
    assert b'value="90"' in client.get("/admin").content
    response = client.post("/admin", settings_form(smoke_run_s="a while"))

    assert response.status_code == 422
    assert b"Seconds that a job of several devices runs on one first must be a number of seconds" in response.content


def test_admin_makes_the_first_queue_and_one_below_it(world: World) -> None:
    """From an empty list to a team's queue by the pages alone; what is wrong stands at its field."""
    client = world.client("admin")
    made = client.post("/queues", {"name": "research", "parent": "", "quota_gpus": "4"})
    below = client.post("/queues", {"name": "research/nlp", "parent": "research", "quota_gpus": "2"})
    too_much = client.post("/queues", {"name": "research/cv", "parent": "research", "quota_gpus": "3"})
    again = client.post("/queues", {"name": "research", "parent": "", "quota_gpus": "x"})

    assert made.headers["Location"] == "/queues/research?tab=members"
    assert below.status_code == 302
    assert Queue.objects.get(name="research/nlp").parent == Queue.objects.get(name="research")
    assert (too_much.status_code, again.status_code) == (422, 422)
    assert 'value="research/cv"' in too_much.content.decode()
    assert not Queue.objects.filter(name="research/cv").exists()


def test_settings_errors_say_what_the_form_says(world: World) -> None:
    """A number out of range is named by its label; the name of REST is not on the page beside its field."""
    version = cluster_row().settings_version
    form = {"policy": "fifo", "locality": "consolidate", "mechanism": "tune", "version": version, "reason": "too many"}

    page = world.client("admin").post("/admin", {**form, "user_most_queued": "0"}).content.decode()

    assert "Jobs that a user may have queued must be a whole number" in page
    assert "user_most_queued must" not in page
