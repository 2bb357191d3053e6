"""A job's page in every state, with much and with nothing, and with a hostile job behind it."""

import html
import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from frontend.components.happenings import RULES
from scheduler.core.model.lifecycle import RANK_ENDED, EndCause, JobState
from scheduler.core.model.plan import PreemptRule, WaitReason
from scheduler.models import Attempt, Cluster, Job, Lease, Server
from scheduler.models.server import ServerState
from scheduler.services.jobs.state import Wait, job_waits_record
from tests.integration.pages_jobs.conftest import (
    TABS,
    Page,
    World,
    job_in,
    log_write,
    newest_attempt,
    page_read,
    samples_of,
)
from tests.support.rows.factories import attempt_make, job_make, job_move, server_make

HOSTILE = [
    "<script>canary()</script>",
    '"><img src=x onerror=canary()>',
    "'-canary()-'",
    "</script><svg onload=canary()>",
    "{{ canary }}{% now %}",
    "javascript:canary()",
    "</textarea><iframe src=//canary>",
    "&lt;b&gt;canary&lt;/b&gt;",
    "\u202ecanary\u202c",
]


def reason_of(job: Job, reason: WaitReason, **evidence: Any) -> None:
    """Let a round say why the job waits."""
    Cluster.objects.filter(pk=1).update(round_number=7, round_finished_at=datetime.now(UTC))
    wait = Wait(job_id=job.pk, reason=reason, evidence=evidence, position=2)
    job_waits_record(waits=[wait], round_number=7, at=datetime.now(UTC))


def preempted(world: World, *, seen: bool = True) -> Job:
    """Return a running job of the member that was preempted once, by a job of ``vision`` or of ``speech``."""
    job = job_in(world, JobState.RUNNING, num_gpus=2)
    by = job_make(world.vision if seen else world.speech, name="by-this-one", owner=world.users["lead"])
    at = datetime.now(UTC) - timedelta(minutes=5)
    job_move(job, JobState.PREEMPTING, at=at)
    job_move(job, JobState.QUEUED, at=at + timedelta(seconds=10))
    first = newest_attempt(job)
    first.preempted_by, first.preempt_rule, first.lost_s = by, "quota_reclaim", 190.0
    first.stop_requested_at, first.first_step, first.last_step = at, 0, 120
    first.save()
    attempt_make(job, server=world.server, at=at + timedelta(seconds=70))
    job_move(job, JobState.LAUNCHING, at=at + timedelta(seconds=70))
    job_move(job, JobState.RUNNING, at=at + timedelta(seconds=72))
    Attempt.objects.filter(job=job, number=2).update(resume_step=100)
    Job.objects.filter(pk=job.pk).update(preemptions=1)
    return Job.objects.get(pk=job.pk)


@pytest.mark.parametrize("tab", TABS)
@pytest.mark.parametrize("state", list(JobState))
def test_every_tab_stands_with_nothing_measured(world: World, state: JobState, tab: str) -> None:
    """No sample, no log, no progress, no round: each tab says what will appear."""
    job = job_in(world, state)
    page = world.browser("member").open(f"/jobs/J-{job.number}{tab}")

    assert page.status == 200
    assert sum(tag == "h1" for tag, _ in page.tags) == 1
    for never in ("None", "N/A", "nan", "Invalid"):
        assert not re.search(rf"\b{never}\b", page.text), never


@pytest.mark.parametrize("tab", TABS)
def test_every_tab_stands_without_any_server(world: World, tab: str) -> None:
    """A job may be submitted before the first server reports."""
    job = job_make(world.vision, owner=world.users["member"])
    Server.objects.all().delete()

    assert world.browser("member").open(f"/jobs/J-{job.number}{tab}").status == 200


@pytest.mark.parametrize("reason", list(WaitReason))
def test_every_reason_is_shown_with_its_sentence(world: World, reason: WaitReason) -> None:
    """Nobody waits without a reason, here, in the overview and in the list."""
    job = job_in(world, JobState.QUEUED)
    if reason is not WaitReason.NEW:
        reason_of(job, reason)
    browser = world.browser("member")
    for path in (f"/jobs/J-{job.number}", f"/jobs/J-{job.number}/why"):
        page = browser.open(path)

        assert "Waiting because" in page.text
        assert reason in page.text
    assert "checks pass" in browser.open(f"/jobs/J-{job.number}/why").text.replace("check pass", "checks pass")


def test_evidence_shows_free_held_and_broken(world: World) -> None:
    """The reason stands on cells that anybody can count; what a server that takes no jobs has is not open."""
    server_make("server-02", gpus=2, broken=[1])
    server_make("server-03", gpus=3, state=ServerState.DRAINING)
    job_in(world, JobState.RUNNING, num_gpus=7)
    job = job_in(world, JobState.QUEUED, num_gpus=4)
    reason_of(job, WaitReason.FRAGMENTATION, needed_gpus=4, largest_free_gpus=1, max_servers=1)
    page = world.browser("member").open(f"/jobs/J-{job.number}/why")
    cells = [has["class"] for tag, has in page.tags if tag == "span" and has.get("class", "").startswith("cell ")]

    assert "No server has 4 CPU slots free. The largest free block is 1." in page.text
    assert "2 CPU slots are free: 1 on server-01, 1 on server-02. Broken: CPU slot 1 of server-02." in page.text
    assert [cells.count(f"cell {kind}") for kind in ("q1", "free", "broken", "drained")] == [7, 2, 1, 3]


def test_jobs_ahead_have_no_name_for_who_may_not_see_them(world: World) -> None:
    """Another team's job has a size and nothing else."""
    job = job_in(world, JobState.QUEUED)
    reason_of(job, WaitReason.NO_CAPACITY, needed_gpus=1, free_gpus=0)
    hidden = job_make(world.speech, name="canary-theirs", num_gpus=3)
    Job.objects.filter(pk=hidden.pk).update(wait_position=1)
    page = world.browser("member").open(f"/jobs/J-{job.number}/why")

    assert "1 job is ahead of it" in page.text
    assert "another job" in page.text
    assert "canary-theirs" not in page.html


def test_what_held_it_back_is_told_reason_by_reason(world: World) -> None:
    """The history of a wait is its events."""
    job = job_in(world, JobState.QUEUED, at=datetime.now(UTC) - timedelta(minutes=30))
    for index, reason in enumerate((WaitReason.QUEUE_QUOTA, WaitReason.NO_CAPACITY)):
        at = datetime.now(UTC) - timedelta(minutes=20 - 10 * index)
        job_waits_record(waits=[Wait(job_id=job.pk, reason=reason, evidence={}, position=1)], round_number=index, at=at)
    page = world.browser("member").open(f"/jobs/J-{job.number}/why")

    assert "Not looked at yet" in page.text
    assert "Quota of the queue" in page.text
    assert "Too few free" in page.text


def test_a_preemption_has_its_receipt(world: World) -> None:
    """By whom, by which rule, what was lost, when it went on."""
    job = preempted(world)
    page = world.browser("member").open(f"/jobs/J-{job.number}")

    assert "by-this-one (vision): vision took its quota back. 3 min 10 s of work lost: no newer checkpoint" in page.text
    assert "at step 100." in page.text
    assert "One preemption, 1 min 2 s" in page.text


@pytest.mark.parametrize("tab", ["", "/why"])
def test_receipts_say_how_many_more_there_are(world: World, tab: str) -> None:
    """Five stand there; the rest are among the attempts."""
    job = preempted(world)
    for minutes in range(1, 7):
        at = datetime.now(UTC) + timedelta(minutes=minutes)
        job_move(job, JobState.PREEMPTING, at=at)
        job_move(job, JobState.QUEUED, at=at)
        Attempt.objects.filter(pk=newest_attempt(job).pk).update(preempt_rule="quota_reclaim")
        attempt_make(job, server=world.server, at=at)
        job_move(job, JobState.LAUNCHING, at=at)
        job_move(job, JobState.RUNNING, at=at)
    page = world.browser("member").open(f"/jobs/J-{job.number}{tab}")

    assert page.text.count("Preempted at") == 5
    assert f'<a href="/jobs/J-{job.number}/attempts">2 more</a>' in page.html


def test_a_receipt_names_no_job_that_may_not_be_seen(world: World) -> None:
    """Who took the place stays another team's business."""
    job = preempted(world, seen=False)
    page = world.browser("member").open(f"/jobs/J-{job.number}")

    assert "by-this-one" not in page.html
    assert "another job (another queue)" in page.text


@pytest.mark.parametrize("rule", ["quota_reclaim", RANK_ENDED, EndCause.LAUNCH_UNCONFIRMED, PreemptRule.REPACKED])
def test_a_receipt_needs_no_job(world: World, rule: str) -> None:
    """Where no single job takes the GPUs, the receipt still says why, and that no other job came first."""
    job = preempted(world)
    Attempt.objects.filter(job=job, number=1).update(preempted_by=None, preempt_rule=rule)
    page = world.browser("member").open(f"/jobs/J-{job.number}")

    why = "another queue took its quota back" if rule == PreemptRule.QUOTA_RECLAIM else RULES[rule]
    assert f": {why}. 3 min 10 s of work" in page.text


def test_progress_has_an_end_only_with_rate_and_total(world: World) -> None:
    """An estimate rests on what was measured lately, or is left out."""
    now = datetime.now(UTC)
    known = {"step": 100, "total_steps": 1000, "steps_per_s": 2.0}
    complete = job_in(world, JobState.RUNNING, **known, progress_at=now)
    stale = job_in(world, JobState.RUNNING, **known, progress_at=now - timedelta(minutes=9))
    endless = job_in(world, JobState.RUNNING, step=100, steps_per_s=2.0, progress_at=now)
    browser = world.browser("member")
    texts = [browser.open(f"/jobs/J-{job.number}").text for job in (complete, stale, endless)]

    assert ["ends at about" in text for text in texts] == [True, False, False]
    assert ["10 %" in text for text in texts] == [True, True, False]
    assert "step 100 of 1 000" in texts[0]


def test_measured_values_become_charts_with_findings(world: World) -> None:
    """A title is a finding; the values stand in a table beside it."""
    job = job_in(world, JobState.RUNNING)
    samples_of(job, 120)
    page = world.browser("member").open(f"/jobs/J-{job.number}/metrics")
    figure = json.loads(re.search(r'id="loss-figure"[^>]*>(.*?)</script>', page.html, re.DOTALL)[1])  # type: ignore[index]

    assert "Loss is still falling" in page.text
    assert "Steady at 2.00 steps/s" in page.text
    assert len(figure["data"][0]["x"]) == 120
    assert "GPU use" not in page.text
    assert sum(tag == "table" for tag, _ in page.tags) == 4


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        (EndCause.EXIT_CODE, "Failed, exit code 3"),
        (EndCause.OUT_OF_MEMORY, "Failed: out of memory"),
        (EndCause.TIME_LIMIT, "Failed: time limit"),
        (EndCause.COMMAND_NOT_FOUND, "Failed: command could not be run"),
    ],
)
def test_a_failure_says_what_happened(world: World, cause: EndCause, words: str) -> None:
    """The cause, the step and what the attempt left to say."""
    job = job_in(world, JobState.FAILED, step=212, total_steps=5000, end_cause=cause, end_detail="what was seen")
    Attempt.objects.filter(job=job).update(end_cause=cause, exit_code=3)
    page = world.browser("member").open(f"/jobs/J-{job.number}")

    assert f"{words} at step 212 of 5 000 after" in page.text
    assert "what was seen" in page.text


def test_job_page_says_how_much_of_its_datasets_is_in_memory(world: World) -> None:
    """As its runtime tells it; nothing is made up where it does not."""
    job = job_in(world, JobState.RUNNING)
    samples_of(job, 5)
    silent = world.browser("member").open(f"/jobs/J-{job.number}")
    samples_of(job, 5, cached_frac=0.62)
    told = world.browser("member").open(f"/jobs/J-{job.number}")

    assert "Datasets in memory not measured" in silent.text
    assert "Datasets in memory 62 %" in told.text


def test_attempts_show_end_steps_and_lost_work(world: World) -> None:
    """One row an attempt, newest first."""
    job = preempted(world)
    page = world.browser("member").open(f"/jobs/J-{job.number}/attempts")

    assert re.search(r"Running server-01 .* Preempted server-01 0 to 120 .* 3 min 10 s", page.text)


def test_a_page_tells_one_run_time(world: World) -> None:
    """Counted from the start of the process on its GPUs, in the head and beside the attempt; a launch is no part."""
    job = job_in(world, JobState.RUNNING)
    now = datetime.now(UTC)
    run = Attempt.objects.filter(job=job)
    run.update(created_at=now - timedelta(minutes=9), started_at=now - timedelta(minutes=5))
    Lease.objects.filter(attempt__job=job).update(opened_at=now - timedelta(minutes=9))
    page = world.browser("member").open(f"/jobs/J-{job.number}/attempts")
    counted = [has["data-since"] for _, has in page.tags if "data-since" in has]

    assert len(counted) == 2
    assert len(set(counted)) == 1
    assert abs(datetime.fromisoformat(counted[0]) - (now - timedelta(minutes=5))) < timedelta(seconds=1)


def test_attempts_show_what_failed_and_the_line_that_says_so(world: World) -> None:
    """A line of a stranger's output is shown as it is and does nothing."""
    job = preempted(world)
    line = "ModuleNotFoundError: No module named '<script>alert(1)</script>'"
    first = Attempt.objects.filter(job=job).order_by("number").first()
    assert first is not None
    Attempt.objects.filter(pk=first.pk).update(failure="import", failure_line=line, kind="smoke")
    page = world.browser("member").open(f"/jobs/J-{job.number}/attempts")

    assert "A library, program or script is missing" in page.text
    assert line in page.text
    assert "Smoke run" in page.text


def test_events_tell_states_reasons_and_numbers(world: World) -> None:
    """Each event is one row with time, actor and cause."""
    job = job_in(world, JobState.QUEUED)
    reason_of(job, WaitReason.NO_CAPACITY, needed_gpus=2, free_gpus=1)
    page = world.browser("member").open(f"/jobs/J-{job.number}/events")

    assert "It needs 2 CPU slots; 1 is free." in page.text
    assert "needed 2 CPU slots, free 1 CPU slot" in page.text
    assert "Submitted submit mia" in page.text


def test_placement_marks_the_jobs_own_devices(world: World) -> None:
    """Which of all devices are this job's."""
    job = job_in(world, JobState.RUNNING, num_gpus=3)
    page = world.browser("member").open(f"/jobs/J-{job.number}/placement")

    assert "It holds 3 CPU slots on server-01" in page.text
    assert len(page.having(**{"class": "cell own"})) == 3


def test_the_spec_can_be_submitted_again_from_its_page(world: World) -> None:
    """YAML, JSON and a command, all of them the stored spec."""
    job = job_in(world, JobState.RUNNING)
    page = world.browser("member").open(f"/jobs/J-{job.number}/spec")
    body = html.unescape(re.search(r"&lt;&lt;&#x27;EOF&#x27;\n(.*?)\nEOF", page.html, re.DOTALL)[1])  # type: ignore[index]

    assert json.loads(body) == job.spec


def hostile_job(world: World, text: str) -> Job:
    """Return a job that says ``text`` wherever a job can say anything, past the checks of the spec."""
    job = preempted(world)
    spec = {**job.spec, "labels": {text: text}, "env": {text: text}, "files": {text: text}, "command": [text]}
    columns = {"name": text[:80], "spec": spec, "end_detail": text, "checkpoint_name": text[:80]}
    Job.objects.filter(pk=job.pk).update(**columns)
    Job.objects.filter(name="by-this-one").update(name=text[:80])
    Attempt.objects.filter(job=job).update(end_detail=text)
    log_write(newest_attempt(job), f"{text}\nERROR {text}\n\x1b[31m{text}\x1b[0m\n")
    return Job.objects.get(pk=job.pk)


def assert_inert(page: Page) -> None:
    """Nothing of the text became an element, an attribute that runs, or a way out of a data element."""
    assert page.status == 200
    for tag, has in page.tags:
        assert tag not in ("img", "iframe", "embed", "object"), (tag, has)
        assert not [name for name in has if name.startswith("on")], (tag, has)
        assert not has.get("href", "").startswith("javascript:")
        assert not (tag == "script" and not has.get("src") and has.get("type") != "application/json"), has
        assert not (tag == "svg" and "onload" in has)
    for block in re.findall(r'<script id="[^"]*" type="application/json">(.*?)</script>', page.html, re.DOTALL):
        json.loads(block)


@pytest.mark.parametrize("text", HOSTILE)
def test_what_a_job_says_stays_text(world: World, text: str) -> None:
    """Names, labels, files, log lines and receipts of a hostile job make no element on any page."""
    job = hostile_job(world, text)
    browser = world.browser("member")
    paths = ["/jobs", f"/jobs/new?clone=J-{job.number}", *(f"/jobs/J-{job.number}{tab}" for tab in TABS)]
    for path in [*paths, f"/jobs/J-{job.number}/cancel"]:
        assert_inert(browser.client_page(path))


@pytest.mark.parametrize(
    "markup",
    [
        "<img src=x>",
        "<b onclick=x()>",
        "<script>x()</script>",
        '<a href="javascript:x()">',
        '<script id="a" type="application/json">{"a": "</script>"}</script>',
    ],
)
def test_the_check_itself_notices_markup(markup: str) -> None:
    """A check that cannot fail proves nothing."""
    with pytest.raises((AssertionError, json.JSONDecodeError)):
        assert_inert(page_read(markup))


def test_pages_of_jobs_run_no_script_of_their_own_making(world: World) -> None:
    """The policy forbids inline scripts, so that one that slipped through would not run."""
    job = job_in(world, JobState.RUNNING)
    response = world.browser("member").client.get(f"/jobs/J-{job.number}")

    assert "script-src 'self';" in response["Content-Security-Policy"]
    assert "unsafe-inline" not in response["Content-Security-Policy"].split("script-src")[1].split(";")[0]


@pytest.mark.parametrize(
    ("tab", "most"),
    [("", 60), ("/why", 60), ("/logs", 45), ("/metrics", 45), ("/placement", 45), ("/events", 40), ("/spec", 35)],
)
def test_queries_of_a_tab_do_not_grow_with_attempts(
    world: World, tab: str, most: int, django_assert_max_num_queries: Any
) -> None:
    """A job that was tried thirty times costs what one costs that was tried once."""
    job = job_in(world, JobState.RUNNING)
    at = datetime.now(UTC) - timedelta(minutes=8)
    for index in range(30):
        moment = at + timedelta(seconds=10 * index)
        job_move(job, JobState.QUEUED, at=moment)
        attempt_make(job, server=world.server, at=moment + timedelta(seconds=2))
        job_move(job, JobState.LAUNCHING, at=moment + timedelta(seconds=2))
        job_move(job, JobState.RUNNING, at=moment + timedelta(seconds=4))
    browser = world.browser("member")

    with django_assert_max_num_queries(most):
        assert browser.open(f"/jobs/J-{job.number}{tab}").status == 200
