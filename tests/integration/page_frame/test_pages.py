"""Every page for every role: it renders, shows what the role may see and nothing else, and holds no script."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from scheduler.core.model.lifecycle import JobState
from scheduler.models import Cluster, Job, Round, Sample, Server
from scheduler.models.server import ServerState
from tests.integration.page_frame.frame_world import ROLES, World, world_make
from tests.support.pages.reader import Page
from tests.support.rows.factories import job_make, sample_make, server_make, user_make

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("plain_static")]

PATHS = (
    "/",
    "/?range=7d",
    "/queues",
    "/cluster",
    "/cluster?view=table",
    "/cluster?view=queue",
    "/cluster/server-1",
    "/rounds",
    "/rounds?changes=1",
    "/rounds/1",
    "/me",
)
PATHS_OF_A_QUEUE = ("/queues/canary-vision", "/queues/canary-vision?range=7d")
PATHS_OF_ADMINS = ("/admin", "/cluster/server-1/drain")


@pytest.fixture
def world() -> World:
    return world_make()


def shown(client: Client, path: str, *, status: int = 200) -> Page:
    """Return a page after the checks that hold for all of them."""
    response = client.get(path)
    page = Page(response.content.decode())

    assert response.status_code == status, path
    assert page.headings == 1
    assert page.inline == []
    assert "script-src 'self'" in response["Content-Security-Policy"]
    assert "Traceback" not in page.text
    assert not re.search(r"\{[{%]|\bNone\b|\bnan\b|Invalid date", page.text)
    return page


@pytest.mark.parametrize("role", ROLES)
def test_pages_render_for_every_role(world: World, role: str) -> None:
    """Whoever is signed in gets the page."""
    client = world.client(role)

    for path in PATHS:
        shown(client, path)


@pytest.mark.parametrize("role", ["viewer", "member", "lead", "org lead", "admin"])
def test_queue_pages_render_for_its_people(world: World, role: str) -> None:
    """Who has a role in a queue or above it sees its page."""
    client = world.client(role)

    for path in PATHS_OF_A_QUEUE:
        assert "canary-queued" in shown(client, path).text


def test_pages_tell_a_stranger_nothing_of_another_queue(world: World) -> None:
    """No name of a queue, a job or a member of another team is on any page, not even in its data."""
    client = world.client("outsider")

    for path in [*PATHS, "/nothing-here"]:
        assert "canary" not in client.get(path).content.decode(), path


def test_a_foreign_queue_looks_like_one_that_does_not_exist(world: World) -> None:
    """The answer to a stranger is the same for a foreign and for a missing queue."""
    client = world.client("outsider")
    foreign, missing = client.get("/queues/canary-vision"), client.get("/queues/no-such-queue")

    assert foreign.status_code == missing.status_code == 404
    # Both tell their own moment: the age of the newest round and the time to the next one.
    texts = [
        re.sub(r"next in \d+:\d\d|\d+\ss ago|\bnow\b", "", Page(each.content.decode()).text)
        for each in (foreign, missing)
    ]
    assert texts[0] == texts[1]


@pytest.mark.parametrize("role", ROLES)
def test_admin_pages_are_for_admins(world: World, role: str) -> None:
    """For others the admin page does not exist, and draining is not allowed; nothing links there."""
    client, is_admin = world.client(role), role == "admin"

    assert [client.get(path).status_code for path in PATHS_OF_ADMINS] == ([200, 200] if is_admin else [404, 403])
    assert ('href="/admin"' in client.get("/").content.decode()) == is_admin


def test_pages_need_a_sign_in(world: World) -> None:
    """Whoever is not signed in is sent to the sign-in page, which leads back."""
    for path in [*PATHS, *PATHS_OF_A_QUEUE, *PATHS_OF_ADMINS]:
        response = Client().get(path)

        assert response.status_code == 302
        assert response["Location"].startswith("/sign-in?next=/")


@pytest.mark.parametrize("admin", [False, True])
def test_pages_render_with_an_empty_database(admin: bool) -> None:
    """Before the first server, queue and job every page says what will be there."""
    client = Client()
    client.force_login(user_make("first", admin=admin))

    for path in ("/", "/queues", "/cluster", "/rounds", "/me", *(["/admin"] if admin else [])):
        shown(client, path)
    assert "No server takes jobs" in shown(client, "/").text  # a member of a queue is asked to submit
    assert "No server has reported yet" in shown(client, "/cluster").text
    assert "No round has run yet" in shown(client, "/rounds").text


def test_cpu_slots_are_never_called_gpus(world: World) -> None:
    """On a cluster without a GPU no sentence of a page speaks of one; the options of policies keep their names."""
    client = world.client("admin")

    for path in [*PATHS, "/queues/canary-vision", "/admin"]:
        text = shown(client, path).text.replace("\u00a0", " ")
        assert "GPU" not in text, path
        assert path in ("/me", "/admin", "/rounds", "/rounds?changes=1") or "CPU slot" in text


def test_gpus_are_called_gpus() -> None:
    """On a cluster of GPUs nothing is called a slot."""
    text = shown(world_make(device_kind="gpu").client("member"), "/").text

    assert "GPU" in text
    assert "slot" not in text


def test_overview_says_what_is_free_where_no_job_may_start() -> None:
    """GPUs of a server that is being drained are not free: how many they are is told, and since when."""
    server_make("server-1", gpus=2, device_kind="gpu", state=ServerState.DRAINING)
    client = Client()
    client.force_login(user_make())
    alone = shown(client, "/").text.replace("\u00a0", " ")
    server_make("server-2", gpus=4, device_kind="gpu")
    server_make("server-3", gpus=1, device_kind="gpu", state=ServerState.DRAINING)
    beside = shown(client, "/").text.replace("\u00a0", " ")

    assert "No GPU is free." in alone
    assert "0 GPUs are free" in " ".join(re.sub("<[^>]*>", "", alone).split())
    assert "2 drained on server-1 since " in alone
    assert "draining" not in alone  # nothing runs on it: it is drained
    assert "The largest free block is 4 GPUs on server-2." in beside
    assert "4 on server-2, 3 drained on 2 servers, the first since " in beside


def test_cluster_page_says_what_is_drained_and_since_when() -> None:
    """Title and line count what is offered; the drained devices have their own colour and word."""
    since = datetime(2026, 1, 3, 0, 17, tzinfo=UTC)
    drained = server_make("server-1", gpus=8, device_kind="gpu", state=ServerState.DRAINING)
    Server.objects.filter(pk=drained.pk).update(state_changed_at=since)
    client = Client()
    client.force_login(user_make())

    whole, one = (shown(client, path).text.replace("\u00a0", " ") for path in ("/cluster", f"/cluster/{drained.pk}"))

    assert "1 server, 1 drained. 0 free, 8 drained on server-1 since 3 Jan" in whole
    for path in ("/cluster", f"/cluster/{drained.pk}"):
        html = client.get(path).content.decode()
        assert 'data-state="drained"' in html
        assert 'data-state="draining"' not in html
    assert "0 of 0 GPUs are allocated" in whole
    assert "cell drained" in client.get("/cluster").content.decode()
    assert "cell drained" in client.get("/").content.decode()
    assert "has 0 free, 8 drained since 3 Jan" in one
    assert client.get(f"/cluster/{drained.pk}").content.decode().count('<span class="soft">drained</span>') == 8


def test_a_server_that_still_runs_a_job_is_draining() -> None:
    """Maintenance may begin when it is drained, not before."""
    server = server_make("server-1", state=ServerState.DRAINING)
    job_make(state=JobState.RUNNING, server=server)
    client = Client()
    client.force_login(user_make(admin=True))

    for path in ("/cluster", f"/cluster/{server.pk}", "/admin"):
        html = client.get(path).content.decode()
        assert 'data-state="draining"' in html, path
        assert 'data-state="drained"' not in html, path


def test_a_server_that_was_never_seen_names_and_counts_nothing() -> None:
    """What it will have is not known: GPUs are still called GPUs, and no more of them are counted."""
    server_make("server-1", gpus=4, device_kind="gpu")
    server_make("server-2", gpus=0, state=ServerState.JOINING, last_report_at=None)
    client = Client()
    client.force_login(user_make(admin=True))

    for path in ("/", "/cluster", "/queues", "/rounds"):
        assert not re.search(r"[0-9]\Wdevices?\b", shown(client, path).text), path
        assert "4 GPUs" in shown(client, path).text.replace("\u00a0", " ") or path in ("/queues", "/rounds")


def test_overview_shows_own_jobs_with_progress_and_reason(world: World) -> None:
    """Live jobs come first; a running one shows its share of steps, a waiting one its sentence."""
    text = shown(world.client("member"), "/").text.replace("\u00a0", " ")

    assert "canary-running" in text
    assert "40 % 2.50 steps/s" in text
    assert "The next round decides about it." in text


def test_round_page_gives_each_decision_its_reason(world: World) -> None:
    """Started, preempted and waiting jobs stand there with what they got or why not."""
    text = shown(world.client("member"), "/rounds/1").text.replace("\u00a0", " ")

    assert "canary-running J-" in text
    assert "1 CPU slot, 1 core, 1.0 GiB on server-1" in text
    assert "A job before it needs the place" in text
    assert "It needs 9 CPU slots; 2 are free." in text


def test_server_page_says_that_nothing_separates_jobs(world: World) -> None:
    """Where isolation is not possible the page says so, and who holds what."""
    text = shown(world.client("member"), "/cluster/server-1").text

    assert "No isolation" in text
    assert "canary-running" in text


def test_server_page_says_how_much_of_their_datasets_jobs_have_in_memory(world: World) -> None:
    """The newest share that a job told in the last minute; "not measured" for all others."""
    job, now = world.jobs[JobState.RUNNING], timezone.now()
    for seconds, frac in ((300, 0.1), (20, 0.4), (10, 0.62)):
        sample_make("job", job.pk, now - timedelta(seconds=seconds), cached_frac=frac)

    text = shown(world.client("member"), "/cluster/server-1").text

    assert "62 %" in text.replace("\xa0", " ")
    assert "not measured" in text
    Sample.objects.filter(scope="job").delete()
    assert "62 %" not in shown(world.client("member"), "/cluster/server-1").text.replace("\xa0", " ")


@pytest.mark.parametrize("path", ["/", "/queues/canary-vision", "/cluster"])
def test_more_jobs_do_not_cost_more_queries(world: World, path: str) -> None:
    """The number of queries of a page does not grow with the number of jobs."""
    # What is lent now looks at the rounds of the last second: this one must not fall out of it in between.
    Round.objects.update(started_at=timezone.now() - timedelta(minutes=5))
    client = world.client("member")
    client.get(path)

    def queries() -> list[str]:
        with CaptureQueriesContext(connection) as captured:
            client.get(path)
        return [query["sql"] for query in captured]

    before = queries()
    for _ in range(20):
        job_make(world.vision, state=JobState.QUEUED, owner=world.users["member"])
    after = queries()

    assert len(after) <= len(before), "\n".join(after)
    assert len(before) <= 60


@pytest.mark.parametrize("odd", [{"steps_per_s": 1e-9, "total_steps": 10**12}, {"total_steps": 2**53}], ids=str)
def test_pages_hold_whatever_rate_a_job_reports(world: World, odd: dict[str, Any]) -> None:
    """No end is told for it; its queue, its owner's overview and the loans of all queues are there."""
    job = world.jobs[JobState.RUNNING]
    Job.objects.filter(pk=job.pk).update(progress_at=timezone.now(), **odd)

    for path in (
        "/",
        "/jobs",
        f"/jobs/J-{job.number}",
        f"/queues/{job.queue.name}",
        f"/queues/{job.queue.name}?tab=usage",
    ):
        assert "Ends about" not in shown(world.client("member"), path).text
    assert world.client("admin").get("/metrics").status_code < 500


def test_every_page_says_which_part_of_the_scheduler_fails(world: World) -> None:
    """Since when, for everyone; with what error, for admins alone."""
    failure = {"since": timezone.now().isoformat(), "error": "ZeroDivisionError: canary-error"}
    Cluster.objects.filter(pk=1).update(failing_steps={"searches": failure})

    for role in ("member", "admin"):
        text = " ".join(Page(world.client(role).get("/queues").content.decode()).words)
        assert "A part of the scheduler fails: searches since" in text
        assert "Jobs keep their CPU slots" in text
        assert ("canary-error" in text) == (role == "admin")
