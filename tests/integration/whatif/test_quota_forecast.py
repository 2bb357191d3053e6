"""What another quota would do, asked of the live cluster: by whom, of what, and that nothing is kept."""

import math
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.cache import caches
from django.test import Client
from django.utils import timezone

from scheduler.core.model.errors import NotAllowed, NotFound, SpecInvalid
from scheduler.core.model.lifecycle import JobState
from scheduler.models import Cluster, Event, Job, Queue
from scheduler.models.queue import Role
from scheduler.selectors.visibility import Actor
from scheduler.services.cluster.settings import cluster_row
from scheduler.services.queues.quotas import Quota, SiblingQuota, queue_change_quota
from scheduler.simulator.forecasts.quota_forecast import Forecast, forecast
from scheduler.whatif import quota_forecast as quota_forecasts
from scheduler.whatif.quota_forecast import quota_forecast
from tests.support.rows.factories import job_make, member_make, queue_make, server_make, user_make

pytestmark = pytest.mark.django_db
HOUR_S = 3600.0


@pytest.fixture
def vision(settings: Any, tmp_path: Path) -> Queue:
    """Speech holds the four GPUs, two of them on loan; two jobs of vision wait. Ended jobs took an hour each."""
    settings.STATIC_ROOT = tmp_path
    settings.STORAGES = {
        **settings.STORAGES,
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    }
    caches["shared"].clear()
    at = timezone.now() - timedelta(hours=2)
    org = queue_make("org", quota_gpus=4)
    speech, vision = queue_make("speech", parent=org, quota_gpus=4), queue_make("vision", parent=org, quota_gpus=0)
    server, owner = server_make(gpus=4), user_make("canary-owner")
    for _ in range(6):
        job_make(speech, state=JobState.COMPLETED, server=server, at=at, owner=owner, executed_s=HOUR_S)
    for queue, state in ((speech, JobState.RUNNING),) * 4 + ((vision, JobState.QUEUED),) * 2:
        job_make(queue, state=state, server=server, at=at, owner=owner, name="canary-job")
    cluster = cluster_row()
    cluster.policy, cluster.policy_options, cluster.introspection = "fifo", {}, []
    cluster.save()
    return vision


def ask(
    actor: Actor, queue: Queue, quota_gpus: int, *moves: SiblingQuota
) -> Any:  # figures are None where nothing is known; a test knows which
    """Ask for a quota."""
    after = Quota(quota_gpus=quota_gpus, max_gpus=None, weight=1.0, may_borrow=True)
    return quota_forecast(actor=actor, queue=queue, after=after, moves=moves, at=timezone.now())


def test_moving_quota_shortens_one_wait_and_preempts_the_other(vision: Queue) -> None:
    """Two GPUs moved from speech to vision: vision's jobs start at once, two of speech are stopped."""
    lead = member_make(vision, Role.LEAD)
    speech = Queue.objects.get(name="speech")

    found = ask(lead, vision, 2, SiblingQuota(queue=speech, quota_gpus=2))

    rows = {row["name"]: row for row in found["queues"]}
    assert found["known"]
    assert found["sums"] == []
    assert rows["vision"]["quota_gpus"] == {"now": 0, "changed": 2}
    # Of those who wait or come the longest waiting are the two that wait now.
    assert rows["vision"]["p90"]["direction"] == "shorter"
    assert rows["vision"]["p90"]["changed_s"] < rows["vision"]["p90"]["now_s"]
    assert rows["vision"]["mean"]["direction"] == "shorter"
    assert rows["speech"]["mean"]["change_s"] > 0
    assert rows["speech"]["preemptions"]["changed"] > rows["speech"]["preemptions"]["now"]
    assert "estimated" in found["sentence"]


def test_jobs_that_the_next_round_starts_and_stops_are_named_to_those_who_may_see_them(vision: Queue) -> None:
    """The lead of vision reads the names of its own jobs, of speech's only how large they are; an admin reads all."""
    move = SiblingQuota(queue=Queue.objects.get(name="speech"), quota_gpus=2)

    own, every = ask(member_make(vision, Role.LEAD), vision, 2, move), ask(user_make(admin=True), vision, 2, move)

    assert [job["name"] for job in own["starts_now"]] == ["canary-job"] * 2
    assert [(job["name"], job["number"], job["num_gpus"]) for job in own["stops_now"]] == [("another job", None, 1)] * 2
    assert [(job["name"], job["queue"]) for job in every["stops_now"]] == [("canary-job", "speech")] * 2
    assert all(job["lost_s"] is not None for job in own["stops_now"])


def test_a_question_changes_and_tells_nothing_it_may_not(vision: Queue) -> None:
    """No row is written, and no user is named, nor a job of another queue."""
    lead = member_make(vision, Role.LEAD)
    Job.objects.filter(queue=vision).update(name="own-job")
    before = (Event.objects.count(), list(Queue.objects.values()), list(Job.objects.values("state", "wait_reason")))

    text = str(ask(lead, vision, 3))

    assert (Event.objects.count(), list(Queue.objects.values())) == before[:2]
    assert list(Job.objects.values("state", "wait_reason")) == before[2]
    assert "canary" not in text


def test_a_cluster_too_large_for_a_day_is_foreseen_for_fewer_hours(
    vision: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What cannot be simulated in time is told for 6 h, and that it is 6 h; what cannot even then says what to do."""
    lead = member_make(vision, Role.LEAD)
    monkeypatch.setattr(quota_forecasts, "forecast", lambda *given, **named: _within(6 * HOUR_S, given, named))
    shorter = ask(lead, vision, 2)
    client = Client()
    client.force_login(lead)
    form = {"quota_gpus": 2, "max_gpus": "", "weight": 1, "may_borrow": "on", "reason": "", "version": 1}
    html = client.post("/queues/vision?tab=quota", {**form, "do": "preview"}).content.decode()
    monkeypatch.setattr(quota_forecasts, "forecast", lambda *given, **named: _within(0.0, given, named))
    never = ask(lead, vision, 2)

    assert (shorter["known"], shorter["horizon_s"]) == (True, 6 * HOUR_S)
    assert "simulated 6 h ahead" in shorter["sentence"]
    assert "come in the next 6 h" in html
    assert (never["known"], never["reason"]) == (False, "too_large")
    assert never["sentence"].startswith("6 jobs are more than can be simulated while you wait, even for 6 h. What-if")


def _within(most_s: float, given: tuple[Any, ...], named: dict[str, Any]) -> Forecast:
    """Forecast as in a cluster in which there is only time for so many hours."""
    allowed = math.inf if named["horizon_s"] <= most_s else 0.0
    return forecast(*given, **{**named, "cpu_s": allowed, "most_cpu_s": allowed, "futures": 5})


def test_quotas_that_do_not_add_up_are_foreseen_and_said(vision: Queue) -> None:
    """A team's lead, who can only request it, reads who can make room; users who can save it read what they lack."""
    lead = member_make(vision, Role.LEAD)
    found = ask(lead, vision, 2)
    server_make(gpus=2)

    assert found["known"]
    assert found["sums"] == [
        "org has 4 GPUs, 4 of them in its other queues: 0 can be granted while those keep theirs. You may request 2; "
        "leads of org and admins can take the rest from them."
    ]
    assert ask(lead, vision, 5)["sums"] == [
        "org has 4 GPUs, fewer than 5. You may request them; an admin has to give org more first."
    ]
    _, beside = ask(user_make(admin=True), vision, 2)["sums"]
    assert " has 4. To take GPUs from them in the same step: " in beside  # who may change quotas reads whose


def test_only_leads_may_ask_and_only_sensible_things(vision: Queue) -> None:
    """Members are refused, strangers find nothing, a bad number names its field, a pause says so."""
    with pytest.raises(NotAllowed):
        ask(member_make(vision, Role.MEMBER), vision, 2)
    with pytest.raises(NotFound):
        ask(member_make(Queue.objects.get(name="speech"), Role.LEAD), vision, 2)
    admin = user_make(admin=True)
    with pytest.raises(SpecInvalid, match="quota must be between"):
        ask(admin, vision, -1)
    with pytest.raises(SpecInvalid, match="quota may be at most 4: the whole cluster has 4 GPUs"):
        ask(member_make(vision, Role.LEAD), vision, 9999)
    cluster = cluster_row()
    cluster.paused = True
    cluster.save()
    assert ask(admin, vision, 2)["reason"] == "paused"


def test_what_can_be_saved_beyond_the_cluster_can_be_previewed(vision: Queue) -> None:
    """Servers may follow a quota: preview and save have one rule, and the cluster's size is none of it."""
    admin, org = user_make(admin=True), Queue.objects.get(name="org")

    found = ask(admin, org, 64)
    queue_change_quota(
        actor=admin,
        queue=org,
        quota_gpus=64,
        max_gpus=None,
        weight=1.0,
        may_borrow=True,
        reason="servers follow",
        expected_version=org.version,
        at=timezone.now(),
    )

    assert (found["known"], found["sums"]) == (True, [])
    assert Queue.objects.get(name="org").quota_gpus == 64


def test_the_preview_says_how_far_off_it_may_be_and_what_stops(vision: Queue) -> None:
    """Parts in words, the past error in the foot, the jobs that stop beside Save, and one band for what is missing."""
    client = Client()
    client.force_login(member_make(Queue.objects.get(name="org"), Role.LEAD))
    speech = Queue.objects.get(name="speech")
    form = {"do": "preview", "quota_gpus": 2, "max_gpus": "", "weight": 1, "may_borrow": "on", "version": 1}

    def preview(**more: object) -> str:
        page = client.post("/queues/vision?tab=quota", {**form, **more}).content.decode()
        return " ".join(page.replace("\N{NO-BREAK SPACE}", " ").split())

    moved, short = preview(**{f"take-{speech.pk}": 2, f"seen-{speech.pk}": 4}), preview()

    assert 'id="at-once">stops 2 jobs at once<' in moved
    assert 'data-now="0">+2<' in moved
    assert moved.count(">median<") == moved.count(">slowest tenth<") == 2
    assert "after such an estimate in the last 7 days, so how far off it is cannot be told." in moved
    assert "missing" not in moved.partition('id="sums"')[2].partition("</div>")[0]
    assert "2 CPU slots are missing: speech has 4 of the 4 of org. Lower theirs under Taken from." in short
    assert short.count("missing:") == 1
    assert not any(words in short for words in ("could not be saved", "by REST", "--leave"))


def test_the_page_shows_consequences_without_saving_and_keeps_what_was_typed(vision: Queue) -> None:
    """Preview by a plain form: the table is there, the reason and the numbers are still in the form."""
    lead = member_make(Queue.objects.get(name="org"), Role.LEAD)
    speech = Queue.objects.get(name="speech")
    client = Client()
    client.force_login(lead)
    form = {"quota_gpus": 2, "max_gpus": "", "weight": 1, "may_borrow": "on", "reason": "until Friday", "version": 1}
    moved = {f"take-{speech.pk}": 2, f"seen-{speech.pk}": 4}

    html = client.post("/queues/vision?tab=quota", {**form, **moved, "do": "preview"}).content.decode()
    unsaved = list(Queue.objects.order_by("name").values_list("name", "quota_gpus"))
    saved = client.post("/queues/vision?tab=quota", {**form, **moved, "do": "quota"})

    text = " ".join(html.split())
    assert "Now → then" in html
    assert re.search(r"0 → <b>2\s[A-Za-z]", html)  # no number without its unit
    assert 'data-label="Median"' in html  # on a phone the queue stands once, above its parts
    assert "simulated 24 h ahead" in html
    assert 'value="until Friday"' in html
    assert "2 jobs would start now" in text.replace("\u00a0", " ")
    assert "2 jobs would stop now" in text.replace("\u00a0", " ")
    assert unsaved == [("org", 4), ("speech", 4), ("vision", 0)]
    assert saved.status_code == 302
    assert list(Queue.objects.order_by("name").values_list("quota_gpus", flat=True)) == [4, 2, 2]
    assert " to 2: until Friday." in client.get("/queues/vision?tab=quota").content.decode()


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("", "It is empty. Give a whole number, 0 or more."),
        ("-5", "-5 is less than 0. Give a whole number, 0 or more."),
        ("2.5", "2.5 is no whole number. Give a whole number, 0 or more."),
        ("9999", "quota may be at most 4: the whole cluster has 4 CPU slots. You asked for 9999."),
    ],
)
def test_a_refused_quota_says_why_once_beside_its_field(vision: Queue, typed: str, said: str) -> None:
    """Previewed or saved: the typed value stays, and the card of a preview has no answer; nothing is simulated."""
    client = Client()
    client.force_login(member_make(vision, Role.LEAD))
    form = {"do": "preview", "quota_gpus": typed, "max_gpus": "", "weight": "1", "may_borrow": "on", "version": 1}

    answer = client.post("/queues/vision?tab=quota", form)

    card = answer.content.decode().partition('id="consequences"')[2].partition("</section>")[0]
    assert answer.status_code == 422
    assert "No preview of these values" in card
    saved = client.post("/queues/vision?tab=quota", {**form, "do": "quota", "reason": "more"})
    assert saved.status_code == (403 if typed == "9999" else 422)  # a lead of the queue alone asks for more
    for page in (answer,) if typed == "9999" else (answer, saved):
        text = page.content.decode().replace("\N{NO-BREAK SPACE}", " ")
        assert text.count(said) == 1
        assert said in text.partition('id="id_quota_gpus_error">')[2].partition("</div>")[0]
        assert 'class="error-list"' not in text


def test_everything_wrong_with_a_quota_is_told_at_once(vision: Queue) -> None:
    """An empty reason does not hide that the quotas do not add up."""
    client = Client()
    client.force_login(member_make(Queue.objects.get(name="org"), Role.LEAD))
    form = {"do": "quota", "quota_gpus": "3", "max_gpus": "x", "weight": "0", "may_borrow": "on", "version": 1}

    most = client.post("/queues/vision?tab=quota", form).content.decode()
    sums = client.post("/queues/vision?tab=quota", {**form, "max_gpus": "", "weight": "1"}).content.decode()

    assert "x is no whole number. Give a whole number, 0 or more, or leave it empty for no limit." in most
    assert "0 is not from 0.01 to 1000. Give a number from 0.01 to 1000." in most
    for page in (most, sums):
        assert "It is empty. Say why in at least 3 characters." in page
    assert "3\N{NO-BREAK SPACE}CPU slots are missing: speech has 4 of the 4 of org." in sums


def test_the_slider_ends_at_what_could_be_saved_and_the_limit_is_said(vision: Queue) -> None:
    """A lead above both queues may take all of the other one; a lead of one queue asks for what the cluster has."""
    above, own = member_make(Queue.objects.get(name="org"), Role.LEAD), member_make(vision, Role.LEAD)
    Queue.objects.filter(name="speech").update(quota_gpus=3)
    pages = []
    for user in (above, own):
        client = Client()
        client.force_login(user)
        pages.append(" ".join(client.get("/queues/vision?tab=quota").content.decode().split()))

    assert 'id="quota-slide" min="0" max="4"' in pages[0]
    assert "At most 1 can be saved while the queues beside it keep theirs; up to 4 with what is taken" in pages[0]
    assert 'id="quota-slide" min="0" max="4"' in pages[1]
    assert "can be saved" not in pages[1]
    assert "Up to 1 can be granted while other queues keep theirs" in pages[1]
    form = {"do": "preview", "quota_gpus": 2, "max_gpus": "", "weight": 1, "may_borrow": "on", "version": 1}
    beyond = client.post("/queues/vision?tab=quota", form).content.decode()
    assert beyond.count("can be granted while") == 1  # by the preview, which says of 2


def test_a_quota_that_somebody_else_moved_meanwhile_is_not_taken_from(vision: Queue) -> None:
    """What is taken from a queue beside it is checked against what was seen, and nothing is half done."""
    admin, speech = user_make(admin=True), Queue.objects.get(name="speech")
    with pytest.raises(Exception, match="was not saved"):
        queue_change_quota(
            actor=admin,
            queue=vision,
            quota_gpus=1,
            max_gpus=None,
            weight=1.0,
            may_borrow=True,
            reason="more work",
            expected_version=1,
            at=timezone.now(),
            moves=[SiblingQuota(queue=speech, quota_gpus=3, seen_gpus=3)],
        )

    assert list(Queue.objects.order_by("name").values_list("quota_gpus", flat=True)) == [4, 4, 0]


def test_the_same_question_gives_the_same_numbers_in_a_later_round_and_on_a_busy_machine(
    vision: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the number of the round nor how many futures the time allows changes what waits are without a change."""
    lead, at = member_make(vision, Role.LEAD), timezone.now()
    after = Quota(quota_gpus=2, max_gpus=None, weight=1.0, may_borrow=True)
    monkeypatch.setattr(quota_forecasts, "FUTURES", 12)
    first = quota_forecast(actor=lead, queue=vision, after=after, at=at)
    Cluster.objects.update(round_number=77)
    monkeypatch.setattr(quota_forecasts, "FUTURES", 40)  # the machine would allow more of them now

    second = quota_forecast(actor=lead, queue=vision, after=after, at=at)

    assert (first["futures"], second["queues"]) == (12, first["queues"])
