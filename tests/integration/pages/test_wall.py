"""The wall: a link opens it on a screen that reads it and nothing else, without names that were not allowed."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from frontend.components.live.consumer import _listener
from frontend.components.times import Series
from frontend.pages.wall.drawing import band_of
from frontend.templatetags.components import both_ends
from scheduler.core.model.errors import NotAllowed, SpecInvalid
from scheduler.core.model.lifecycle import EndCause, JobState
from scheduler.core.model.plan import PreemptRule, WaitReason
from scheduler.models import Attempt, Event, Job, Sample, Server, WallLink
from scheduler.selectors import wall
from scheduler.services.accounts.walls import SESSION_KEY, wall_link_create, wall_link_revoke
from tests.integration.api.conftest import World
from tests.support.rows.factories import attempt_make, job_make, sample_make, server_make

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 1, 2, tzinfo=UTC)


def link_of(world: World, *, names: bool = False) -> tuple[WallLink, str]:
    """Return a link of the admin with its code."""
    return wall_link_create(actor=world.users["admin"], name="lobby", shows_names=names, at=NOW)


def screen_of(code: str) -> Client:
    """Return a browser that has sent a code."""
    client = Client()
    answer = client.post("/wall/open", {"code": code})
    assert (answer.status_code, answer.headers["Location"]) == (302, "/wall")
    return client


def test_a_screen_reads_the_wall_and_nothing_else(world: World) -> None:
    """Other pages send it to the sign-in, REST refuses; people are never named."""
    screen = screen_of(link_of(world)[1])
    wall = screen.get("/wall")

    assert wall.status_code == 200
    assert wall.headers["Cache-Control"].startswith("max-age=0")
    text = wall.content.decode()
    assert not any(user.username in re.sub(r"<[^>]*>", " ", text).split() for user in world.users.values())
    for path in ("/", "/jobs", "/cluster", "/admin/walls", "/search"):
        assert screen.get(path).status_code == 302, path
    assert screen.get("/api/v1/overview").status_code == 401


def test_the_queue_that_took_the_gpus_is_named_to_readers_that_may_know_it(world: World) -> None:
    """In the line of the event and of the job that waits again; a lead of one queue reads of another one."""
    now = datetime.now(UTC)
    taker = job_make(world.speech, state=JobState.RUNNING)
    job = job_make(world.vision, state=JobState.QUEUED, name="taken-job")
    attempt = attempt_make(job)
    Attempt.objects.filter(pk=attempt.pk).update(
        state="ended", end_cause=EndCause.PREEMPTED, ended_at=now, preempt_rule=PreemptRule.QUOTA_RECLAIM,
        preempted_by=taker,
    )  # fmt: skip
    data = {"by_job": taker.number}
    Event.objects.create(
        kind="job_state", at=now, job=job, queue=world.vision, actor="scheduler", reason=PreemptRule.QUOTA_RECLAIM,
        old_state=JobState.RUNNING, new_state=JobState.PREEMPTING, data=data, number=99,
    )  # fmt: skip
    page, of_lead = (world.client(name).get("/wall").content.decode() for name in ("admin", "lead"))

    assert page.count("speech took its quota back") == 3, "headline, event, line"
    assert "speech" not in of_lead
    assert of_lead.count("its CPU slots were lent") == 3


def test_what_is_drained_is_not_told_as_free() -> None:
    """A quarter of eight is drained and three quarters are held: nothing was free."""
    course: dict[str, list[float | None]] = {name: [0.0] * 4 for name in ("unknown_gpus", "broken_gpus", "busy_gpus")}
    course |= {"num_gpus": [8.0] * 4, "allocated_gpus": [8.0, 8.0, 4.0, 8.0], "drained_gpus": [0.0, 0.0, 4.0, 0.0]}
    half_free = {**course, "drained_gpus": [0.0] * 4}

    assert band_of(cast(Series, course), ["1", "2", "3", "4"]).low == ""
    assert band_of(cast(Series, half_free), ["1", "2", "3", "4"]).low == "50\u00a0% was free at 3"


def test_jobs_are_named_where_the_admin_allowed_it(world: World) -> None:
    """Else only their queue is told."""
    job_make(
        world.vision,
        state=JobState.QUEUED,
        name="secret-plan",
        wait_reason=WaitReason.DEPENDENCY,
        wait_evidence={
            "job": "J-1 secret-base",
            "until": "completed",
            "job_state": "running",
            "job_queue_id": world.vision.pk,
        },
    )

    shown = screen_of(link_of(world, names=True)[1]).get("/wall").content.decode()
    assert "secret-plan" in shown
    assert "until secret-base completes" in shown
    hidden = screen_of(link_of(world)[1]).get("/wall").content.decode()
    assert "secret-plan" not in hidden
    assert "until J-1 completes" in hidden
    assert "secret-base" not in hidden
    assert "canary-job" not in hidden
    assert "a job of vision" in hidden


def test_a_person_reads_it_by_their_own_right(world: World) -> None:
    """Jobs of other queues have no name."""
    job_make(world.speech, state=JobState.QUEUED, name="of-speech")

    assert "of-speech" not in world.client("member").get("/wall").content.decode()
    assert "of-speech" in world.client("admin").get("/wall").content.decode()
    assert Client().get("/wall").status_code == 302


def test_the_band_says_from_when_it_is_drawn(world: World) -> None:
    """A cluster of twenty minutes has no last 24 h."""
    Sample.objects.filter(scope="cluster").delete()
    begun = datetime.now(UTC) - timedelta(minutes=20)
    for minutes in range(0, 20, 2):
        at = begun + timedelta(minutes=minutes)
        sample_make("cluster", 1, at, num_gpus=4, allocated_gpus=3, busy_gpus=2, free_gpus=1)
    page = world.client("member").get("/wall").content.decode()

    assert re.search(r"Busy, since \d\d:\d\d", page)
    assert "last 24 h<" not in page


def test_revoking_makes_screens_dark(world: World) -> None:
    """At the next request, and for the live frames."""
    link, code = link_of(world)
    screen = screen_of(code)
    key = screen.session.session_key
    assert _listener(key, ["cluster"]) == -1 - link.pk
    assert _listener(key, ["cluster", f"queue.{world.vision.pk}"]) is None
    assert _listener(key, [f"job.{world.job.pk}"]) is None

    wall_link_revoke(actor=world.users["admin"], link_id=link.pk, at=NOW)

    assert screen.get("/wall").status_code == 302
    assert _listener(key, ["cluster"]) is None
    assert Client().post("/wall/open", {"code": code}).status_code == 422


def test_a_person_who_signs_in_at_a_screen_has_a_session_like_any_other(world: World, settings: Any) -> None:
    """Not one of a year, as the screen had, nor one that opens the wall after the sign-out."""
    screen = screen_of(link_of(world)[1])
    of_screen = screen.session.session_key
    member = world.users["member"]
    member.set_password("a-long-enough-one")
    member.save()

    answer = screen.post("/sign-in", {"username": member.username, "password": "a-long-enough-one"})

    assert answer.status_code == 302
    assert screen.session.get_expiry_age() == settings.SESSION_COOKIE_AGE
    assert SESSION_KEY not in screen.session
    assert not Session.objects.filter(pk=of_screen).exists()


def test_a_link_ends_with_its_maker(world: World) -> None:
    """An admin who leaves, or is admin no longer, leaves no open screen behind."""
    screen = screen_of(link_of(world)[1])
    User.objects.filter(pk=world.users["admin"].pk).update(is_superuser=False)

    assert screen.get("/wall").status_code == 302


@pytest.mark.parametrize("code", ["", "x", "x" * 5000, "\x00", "' OR 1=1"])
def test_a_wrong_code_opens_nothing(world: World, code: str) -> None:
    """It says so at the field, and gives no session."""
    client = Client()
    answer = client.post("/wall/open", {"code": code})

    assert answer.status_code == 422
    assert "This code opens no wall" in answer.content.decode()
    assert client.get("/wall").status_code == 302


def test_links_are_made_and_revoked_by_admins_and_stand_in_the_audit(world: World) -> None:
    """The link is shown once; its code stands behind #, and nowhere in the database or the audit."""
    client = world.client("admin")
    page = client.post("/admin/walls", {"name": "lobby", "shows_names": "on"}).content.decode()
    code = page.split("/wall/open#")[1].split("<")[0].split('"')[0].strip()
    assert screen_of(code).get("/wall").status_code == 200
    assert code not in client.get("/admin/walls").content.decode()
    link = WallLink.objects.latest("pk")
    assert code not in str(vars(link))
    client.post(f"/admin/walls/{link.pk}/revoke")

    told = list(Event.objects.filter(kind="wall").order_by("pk").values_list("actor", "reason", "data"))[-2:]
    assert told == [
        ("ada", "create", {"name": "lobby", "shows_names": True}),
        ("ada", "revoke", {"name": "lobby"}),
    ]
    assert Event.objects.filter(kind="wall").latest("pk").request_id
    with pytest.raises(NotAllowed):
        wall_link_create(actor=world.users["lead"], name="mine", shows_names=True, at=NOW)
    with pytest.raises(SpecInvalid):
        wall_link_create(actor=world.users["admin"], name="", shows_names=True, at=NOW)


def test_the_wall_costs_no_more_queries_with_more_to_show(
    world: World, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    """Servers and jobs are read together."""
    screen = screen_of(link_of(world)[1])
    for number in range(8):
        server = server_make(f"more-{number}", gpus=4)
        job_make(world.vision, state=JobState.RUNNING, server=server)
        job_make(world.vision, state=JobState.QUEUED)
    with django_assert_max_num_queries(40):
        assert screen.get("/wall").status_code == 200


def test_a_large_array_that_is_held_back_hides_no_job_in_line(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs without a place in the order come last where only the first are looked at."""
    first = job_make(world.vision, state=JobState.QUEUED)
    Job.objects.update(wait_position=None)
    Job.objects.filter(pk=first.pk).update(wait_position=1)
    monkeypatch.setattr(wall, "LOOKED_AT", 1)

    looked_at = wall.wall_line(world.users["admin"], NOW, most=5)["first"]
    assert [row["number"] for row in looked_at] == [first.number]


def test_long_names_and_sentences_keep_their_ends(world: World) -> None:
    """What is too long for its place loses its middle: the end, with its numbers, is a part that is never cut."""
    name, job = "gpu-of-the-institute-in-the-cellar-017", "llm-pretraining-of-the-spring-042"
    Server.objects.filter(pk=world.server.pk).update(name=name)
    job_make(world.vision, state=JobState.QUEUED, name=job, wait_reason="no_capacity",
             wait_evidence={"needed_gpus": 64, "free_gpus": 2})  # fmt: skip
    page = world.client("admin").get("/wall").content.decode()

    shown = re.search(f'<b title="{name}">(.*?)</b>', page)
    assert shown
    assert shown[1].startswith("gpu-of-the")
    assert shown[1].endswith("cellar-017")
    assert f'<span class="fit" title="{job}"><span>{job[:-4]}</span><span>{job[-4:]}</span></span>' in page
    assert "only 2 are free" in page
    assert both_ends("It needs 64 GPUs; no more than 2 are free", 14).endswith("<span>2 are free</span></span>")
    assert both_ends("starts now", 14) == '<span class="fit"><span>starts now</span></span>'
