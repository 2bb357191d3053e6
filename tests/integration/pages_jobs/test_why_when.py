"""Why and when: the curve of the chance to start, what frees next, and that nothing helps when nothing does."""

import re
from datetime import UTC, timedelta

import pytest
from django.utils import timezone

from scheduler.core.model.lifecycle import JobState
from scheduler.models import Cluster, Gpu, Job, Server, StartEstimate
from scheduler.models.server import ServerState
from tests.integration.pages_jobs.conftest import Page, World, page_read
from tests.support.rows.factories import job_make, server_make

pytestmark = pytest.mark.django_db


def waiting(world: World) -> Job:
    """Return a job that waits for more GPUs than any server has free."""
    job = job_make(world.vision, state=JobState.QUEUED, owner=world.users["member"], num_gpus=2, name="waits")
    Job.objects.filter(pk=job.pk).update(wait_reason="no_capacity", wait_evidence={"needed_gpus": 2, "free_gpus": 0})
    Gpu.objects.filter(server=world.server, index__gte=1).update(healthy=False)
    return job


def why(world: World, job: Job) -> str:
    """Return the text of its tab."""
    return world.browser("member").open(f"/jobs/J-{job.number}/why").text


def test_the_curve_has_the_starts_of_the_futures(world: World) -> None:
    """Four of five futures start it; the table says the same as the figure."""
    job, now = waiting(world), timezone.now()
    StartEstimate.objects.create(
        job=job,
        round_number=1,
        made_at=now,
        p50_at=now + timedelta(seconds=120),
        futures=5,
        starts_s=[60, 120, 120, 600],
    )

    text = why(world, job)

    assert "Chance that it has started, 5 simulated futures" in text
    assert "80 %" in text
    assert "so how far off it is cannot be told" in text
    assert "How sure this is" not in text, "all of it stands under the curve"


def test_a_time_that_is_estimated_is_told_as_about(world: World) -> None:
    """In the list, on its page, and of what frees GPUs next, as of every forecast; search says so of an end."""
    job, now = waiting(world), timezone.now()
    at = now + timedelta(seconds=120)
    StartEstimate.objects.create(job=job, round_number=1, made_at=now, p50_at=at, futures=9, starts_s=[60] * 9)
    server = server_make("gpu-77", gpus=2, last_report_at=now)
    ends = job_make(world.vision, state=JobState.RUNNING, server=server, num_gpus=1, name="ends-soon")
    Job.objects.filter(pk=ends.pk).update(step=0, total_steps=600, steps_per_s=1.0)
    member = world.browser("member")

    assert re.search(r"starts about \d", member.open("/jobs").text)
    assert re.search(r"at about (\w+ )?\d\d:\d\d gpu-77 then has 2 CPU slots free", why(world, job))
    assert re.search(r"ends about \d", member.open("/search?q=ends-soon").text)


def test_a_limit_below_the_job_is_told_in_every_part(world: World) -> None:
    """No time of an older estimate, a check that is not passed, and what has to change, in the words of the devices."""
    job, now = waiting(world), timezone.now()
    evidence = {"queue_id": world.vision.pk, "needed_gpus": 2, "user_max_gpus": 1, "user_held_gpus": 0}
    Job.objects.filter(pk=job.pk).update(wait_reason="user_limit", wait_evidence=evidence)
    at = now + timedelta(seconds=120)
    StartEstimate.objects.create(job=job, round_number=1, made_at=now, p50_at=at, futures=9, starts_s=[60] * 9)

    page = world.browser("member").open(f"/jobs/J-{job.number}/why")
    text = page.text.replace("\u00a0", " ")

    change = "t cannot start until one user may hold 2 CPU slots in vision, or it asks for fewer."
    assert f"One user may hold 1 CPU slot in vision; it needs 2 CPU slots. I{change}" in text
    assert "Its start is not known" in text
    assert "2 GPUs" not in text
    assert "It starts as soon as" not in text
    assert "whole server for it" not in text
    assert "Limit of one user in vision" in text
    assert not re.search(r"All \d+ checks pass", text)
    assert "Starts at about" not in text
    assert "Chance that it has started" not in text


def test_an_estimate_says_on_how_little_it_rests(world: World) -> None:
    """Few jobs have ended: no error is claimed. A time that has passed is not told as one to come."""
    job, now = waiting(world), timezone.now()
    times = {"p50_at": now - timedelta(seconds=60), "p90_at": now + timedelta(seconds=600)}
    StartEstimate.objects.create(job=job, round_number=1, made_at=now, futures=5, **times)

    text = why(world, job)

    assert "too few to tell how long jobs run: it may be far off" in text or "No job has completed yet" in text
    assert "so how far off it is cannot be told" in text
    assert "Was to start at about" in text
    assert re.search(r"Start: was due about (\w+ )?\d\d:\d\d, 9 in 10 by (\w+ )?\d\d:\d\d\.", text)
    assert "in the median" not in text


def test_the_wait_counts_from_its_begin(world: World) -> None:
    """Beside it stands since when it is for this reason."""
    job, now = waiting(world), timezone.now()
    begun = now - timedelta(hours=2)
    Job.objects.filter(pk=job.pk).update(
        submitted_at=begun, state_changed_at=begun, wait_since=now - timedelta(minutes=3)
    )

    text = why(world, job).replace("\u00a0", " ")

    assert re.search(r"for\s+2 h\s*, this reason since \d", text)


def test_a_job_that_is_held_back_awaits_no_place(world: World) -> None:
    """No round gives one to a job that waits for others."""
    job = waiting(world)
    Job.objects.filter(pk=job.pk).update(wait_reason="dependency", wait_evidence={"first_number": 1})

    text = why(world, job)

    assert "It has no place in line while it is held back" in text
    assert "No job waits before it" not in text


def test_without_an_estimate_there_is_no_curve(world: World) -> None:
    """Nothing is drawn of what is not known."""
    assert "Chance that it has started" not in why(world, waiting(world))


def test_what_frees_next_is_told_by_the_jobs_that_say_so(world: World) -> None:
    """The server whose job ends first, and when all of it is free."""
    server = server_make("gpu-77", gpus=2, last_report_at=timezone.now())
    job = job_make(world.vision, state=JobState.RUNNING, server=server, num_gpus=1, name="ends-soon")
    Job.objects.filter(pk=job.pk).update(step=0, total_steps=600, steps_per_s=1.0)

    text = why(world, waiting(world))

    assert "gpu-77 is the first whole server for it" in text
    assert "gpu-77 then has 2 CPU slots free, enough for it. ends-soon ends then." in text


def test_a_job_wider_than_each_server_is_told_so(world: World) -> None:
    """That no server is wholly free in time is not what it waits for."""
    server = server_make("gpu-77", gpus=1, last_report_at=timezone.now())
    job = job_make(world.vision, state=JobState.RUNNING, server=server, num_gpus=1, name="ends-soon")
    Job.objects.filter(pk=job.pk).update(step=0, total_steps=600, steps_per_s=1.0)
    wide = waiting(world)
    Job.objects.filter(pk=wide.pk).update(num_gpus=17)

    text = why(world, wide)

    assert "take several servers" in text
    assert "has room for it" not in text

    server_make("gpu-78", gpus=17, last_report_at=timezone.now())
    job_make(world.vision, state=JobState.RUNNING, server=Server.objects.get(name="gpu-78"), num_gpus=17)
    assert "No server says when it has room for it" in why(world, wide), "one is wide enough, and its job tells no end"


def test_when_no_change_helps_the_page_says_so(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a job that waits; not for one that runs, and not to a reader for whom none was tried. REST says the same."""
    monkeypatch.setattr("frontend.pages.jobs.waiting.offers.job_unblockers_soon", lambda user, job, at, most_jobs: [])
    monkeypatch.setattr("scheduler.api.jobs.history.job_unblockers", lambda user, job, at: [])
    tried, job = "No change of the job that we tried would start it", waiting(world)
    running = job_make(world.vision, state=JobState.RUNNING, owner=world.users["member"])

    assert f"{tried} sooner. Each round tries again." in why(world, job)
    assert tried not in why(world, running)
    assert tried not in world.browser("viewer").open(f"/jobs/J-{job.number}/why").text

    evidence = {"queue_id": world.vision.pk, "needed_gpus": 2, "user_max_gpus": 1, "user_held_gpus": 0}
    Job.objects.filter(pk=job.pk).update(wait_reason="user_limit", wait_evidence=evidence)
    asked = world.browser("member").client.get(f"/api/v1/jobs/{job.pk}/explain").json()

    assert asked["unblock_sentence"].startswith(f"{tried}. It cannot start until one user may hold 2 GPUs in vision")
    assert asked["unblock_sentence"].replace("GPU", "CPU slot") in why(world, job)


def test_six_tabs_hold_all_that_nine_held(world: World) -> None:
    """Old addresses stay; a group shows its parts."""
    job = waiting(world)
    page = world.browser("member").open(f"/jobs/J-{job.number}/placement")
    bar = page.html.split('<nav class="tabs" aria-label="Job">')[1].split("</nav>")[0]

    assert bar.count("<a ") <= 6
    assert 'aria-current="page">Resources' in bar
    parts = page.html.split('<nav class="seg parts"')[1].split("</nav>")[0]
    assert [part in parts for part in ("/metrics", "/placement", "/profile")] == [True] * 3
    history = world.browser("member").open(f"/jobs/J-{job.number}/attempts").html
    assert [f"/{part}" in history.split('<nav class="seg parts"')[1] for part in ("events", "spec")] == [True] * 2


def test_it_says_on_how_many_servers_the_job_may_be(world: World) -> None:
    """A gang that may be on two servers does not ask for one."""
    job = waiting(world)
    assert "2 CPU slots on one server" in why(world, job)

    job.refresh_from_db()
    job.spec["resources"]["max_servers"] = 2
    job.save()
    assert "2 CPU slots on up to 2 servers" in why(world, job)


def servers_of(page: Page) -> list[str]:
    """Return what the map says of each server."""
    found = re.findall(r'<li class="evidence-server.*?</li>', page.html, re.DOTALL)
    return [page_read(re.sub(r'title="[^"]*"', "", item)).text for item in found]


def test_the_map_tells_of_each_server_who_holds_it_and_when_it_is_free(world: World) -> None:
    """Now, at the end of its first job, not known, drained; the one with the accent is that of the list."""
    now = timezone.now()
    names = ("gpu-71", "gpu-72", "gpu-73", "gpu-74")
    soon, dark, drains, drained = (server_make(name, gpus=2, last_report_at=now) for name in names)
    for server, total in ((soon, 600), (dark, None), (drains, None)):
        ends = job_make(world.vision, state=JobState.RUNNING, server=server, num_gpus=2, name=f"on-{server.name}")
        Job.objects.filter(pk=ends.pk).update(step=0, total_steps=total, steps_per_s=1.0)
    Server.objects.filter(pk__in=[drains.pk, drained.pk]).update(state=ServerState.DRAINING)
    job = waiting(world)
    page = world.browser("member").open(f"/jobs/J-{job.number}/why")
    told = [text for text in servers_of(page) if "gpu-7" in text]

    assert re.search(r"gpu-71 (\d\d:\d\d|[A-Z][a-z]{2}) 2 CPU slots$", told[0])
    assert told[1:] == ["gpu-72 ?", "gpu-73 draining", "gpu-74 drained"]
    assert re.findall(r'class="evidence-server room" title="([^:]*):', page.html) == ["gpu-71"]
    assert "gpu-71 is the first whole server for it" in page.text
    assert page.html.count('<li class="room">') == 1
    assert "vision 6" in page.text


def test_no_server_has_the_accent_where_the_estimate_is_earlier(world: World) -> None:
    """The start does not count on it then, and the list says what it may count on."""
    job, now = waiting(world), timezone.now()
    at = now + timedelta(seconds=60)
    StartEstimate.objects.create(job=job, round_number=1, made_at=now, p50_at=at, futures=9, starts_s=[60] * 9)
    server = server_make("gpu-77", gpus=2, last_report_at=now)
    late = job_make(world.vision, state=JobState.RUNNING, server=server, num_gpus=2)
    Job.objects.filter(pk=late.pk).update(step=0, total_steps=6_000, steps_per_s=1.0)
    page = world.browser("member").open(f"/jobs/J-{job.number}/why")

    assert "The estimate is earlier: a running job may be preempted for it, or end sooner." in page.text
    assert "evidence-server room" not in page.html
    assert '<li class="room">' not in page.html


def test_many_servers_fold_into_those_that_are_free_soonest(world: World) -> None:
    """Sixteen are seen at once, further ones folded, and of hundreds the page of the cluster has the rest."""
    now = timezone.now()
    for at in range(70):
        server_make(f"node-{at:03}", gpus=1, last_report_at=now)
    job = waiting(world)
    page = world.browser("member").open(f"/jobs/J-{job.number}/why")
    seen, _, folded = page.html.split('<ul class="evidence')[1].partition("<details")[0], "", page.html
    total = Server.objects.count()

    assert seen.count("evidence-server") == 16
    assert folded.count("evidence-server") == 64
    assert "48 more servers" in page.text
    assert f"{total - 64} more on the page of the cluster" in page.text


def test_the_place_in_line_is_told_once(world: World) -> None:
    """Under the title that in the cluster; in the card that in the queue, where it is another."""
    job, other = waiting(world), job_make(world.speech)
    Job.objects.filter(pk=job.pk).update(wait_position=2)
    mine = why(world, job)
    Job.objects.filter(pk=other.pk).update(wait_position=1)
    both = why(world, job)

    assert mine.count("next in line") == 1
    assert "Next in line" not in mine
    assert (both.count("2nd of 2 in line"), both.count("Next in line in vision.")) == (1, 1)


def test_first_in_line_is_told_who_may_start_before_it(world: World) -> None:
    """Smaller jobs do where the policy lets them; one GPU is never too few for it, and a quota has checks."""
    job = waiting(world)
    Job.objects.filter(pk=job.pk).update(wait_position=1)
    passed = why(world, job)
    Cluster.objects.update(policy="fifo", policy_options={"backfill": False})
    in_line = why(world, job)
    Job.objects.filter(pk=job.pk).update(num_gpus=1)
    narrow = why(world, job)
    Job.objects.filter(pk=job.pk).update(wait_reason="queue_quota")
    quota = why(world, job)

    starts = "It starts with the first round that finds"
    assert (
        f"{starts} 2 CPU slots for it; until then smaller jobs may start on CPU slots that are too few for it."
        in passed
    )
    assert f"{starts} 2 CPU slots for it; until then no job behind it in its queue starts." in in_line
    assert f"{starts} 1 CPU slot for it." in narrow
    assert "It starts with the first round in which it passes every check." in quota


def test_the_two_points_of_the_curve_are_labelled(world: World) -> None:
    """The later one where the estimate has it, also when lately jobs started later than simulated."""
    job, now = waiting(world), timezone.now()
    times = {
        "p50_at": now + timedelta(seconds=120),
        "simulated_p90_at": now + timedelta(seconds=600),
        "p90_at": now + timedelta(seconds=700),
    }
    StartEstimate.objects.create(
        job=job, round_number=1, made_at=now, futures=10, starts_s=[120] * 8 + [600] * 2, **times
    )
    page = world.browser("member").open(f"/jobs/J-{job.number}/why")

    assert len(re.findall(r"(1 in 2|9 in 10) by \\u003Cb\\u003E", page.html)) == 2
    assert "The second time is later than simulated, as lately jobs started later." in page.text

    StartEstimate.objects.filter(job=job).update(p90_at=None)
    later = why(world, job)
    assert "9 in 10: later than 7 days from now" in later
    assert "The first time rests on earlier rounds too" not in later

    StartEstimate.objects.filter(job=job).update(p50_at=now + timedelta(seconds=420))
    smoothed = world.browser("member").open(f"/jobs/J-{job.number}/why")
    told = timezone.localtime(now + timedelta(seconds=420), UTC)
    assert "The first time rests on earlier rounds too" in smoothed.text
    assert f"1 in 2 by \\u003Cb\\u003E{told:%H:%M}" in smoothed.html


def test_two_points_off_the_curve_are_labelled_in_two_lines(world: World) -> None:
    """Both stand above it, where one beside the other would lie upon it."""
    job, now = waiting(world), timezone.now()
    p50_at, p90_at = (now + timedelta(seconds=after_s) for after_s in (420, 700))
    StartEstimate.objects.create(
        job=job, round_number=1, made_at=now, futures=10, starts_s=[120] * 8 + [600] * 2, p50_at=p50_at, p90_at=p90_at
    )
    html = world.browser("member").open(f"/jobs/J-{job.number}/why").html
    lines = re.findall(r'"text": ?"(?:1 in 2|9 in 10) by .*?"yshift": ?(\d+)', html.replace("\\u0022", '"'))

    assert lines == ["0", "14"]


def test_a_phone_shows_the_check_of_the_reason(world: World) -> None:
    """Others may fail beside it: a paused scheduler is why, however few GPUs are free."""
    job = waiting(world)
    Cluster.objects.filter(pk=1).update(paused=True)
    page = world.browser("member").open(f"/jobs/J-{job.number}/why")
    [folded] = re.findall(r'<details class="check-fold"><summary>.*?</summary>', page.html, re.DOTALL)

    assert "Scheduler : paused by an admin" in page_read(folded).text.replace("Scheduler:", "Scheduler :")
    assert re.search(r"\d of 6 checks pass", page_read(folded).text)
