"""What queues and users held, out of leases: sums, shares, quotas of before, loans, and the CSV of it."""

import csv
import io
import re
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from clusterweb.config.env import BASE_DIR
from scheduler.api.queues.usage import COLUMNS, CSV_IS
from scheduler.core.model.lifecycle import JobState
from scheduler.live.reports.gpu_use import Use
from scheduler.models import Attempt, Job, Lease, Queue, UsageHour
from scheduler.models.queue import Role
from scheduler.selectors.queues.usage import ANOTHER, NO_LENDER, loan_ledger, share_series, usage
from scheduler.selectors.times import iso
from scheduler.services.queues.quotas import queue_change_quota
from tests.support.rows.factories import AT, job_make, member_make, queue_make, round_make, server_make, user_make
from tests.support.suite.examples import tried

HOUR = timedelta(hours=1)


def held_for(queue: Queue, owner: User, *, gpus: int, begin: datetime, end: datetime | None) -> None:
    """Let a job of a user hold GPUs from one time to another."""
    server = server_make(gpus=gpus)
    job = job_make(queue, state=JobState.RUNNING, owner=owner, num_gpus=gpus, server=server)
    Lease.objects.filter(attempt__job=job).update(opened_at=begin, closed_at=end)


@pytest.mark.django_db
def test_usage_is_by_user_and_of_the_queues_below() -> None:
    """Two users of two queues: each row and the sum, clipped to the range, lease by lease."""
    org = queue_make("org", quota_gpus=8, created_at=AT - 9 * HOUR)
    vision, speech = queue_make("org/vision", parent=org), queue_make("org/speech", parent=org)
    mia, oz = user_make("mia"), user_make("oz")
    held_for(vision, mia, gpus=2, begin=AT - 3 * HOUR, end=AT - HOUR)  # 1 h of it inside: 2
    held_for(vision, oz, gpus=1, begin=AT - HOUR, end=None)  # 1
    held_for(speech, oz, gpus=4, begin=AT - 2 * HOUR, end=AT - HOUR)  # 4
    UsageHour.objects.create(
        hour=AT.replace(minute=0) - HOUR, queue=vision, user=mia, measured_gpu_s=3600.0, busy_gpu_s=900.0
    )

    found = usage(org, since=AT - 2 * HOUR, until=AT)

    rows = [(row["queue"], row["user"], row["allocated_gpu_hours"]) for row in found["rows"]]
    assert rows == [("org/speech", "oz", 4.0), ("org/vision", "mia", 2.0), ("org/vision", "oz", 1.0)]
    assert found["total"] == {"allocated_gpu_hours": 7.0, "measured_gpu_hours": 1.0, "busy_gpu_hours": 0.25}
    assert [row["busy_gpu_hours"] for row in found["rows"]] == [None, 0.25, None]


@pytest.mark.django_db
def test_the_hour_that_runs_counts_whole_up_to_now() -> None:
    """20 minutes into the hour, what was measured in it lies in those 20 minutes; a range over half has half."""
    vision, mia = queue_make("vision", quota_gpus=8, created_at=AT - 9 * HOUR), user_make("mia")
    hour = AT.replace(minute=0, second=0)
    now = hour + timedelta(minutes=20)
    UsageHour.objects.create(hour=hour, queue=vision, user=mia, measured_gpu_s=1200.0, busy_gpu_s=600.0)

    whole = usage(vision, since=hour - HOUR, until=now, at=now)
    half = usage(vision, since=now - timedelta(minutes=10), until=now, at=now)

    assert whole["total"]["measured_gpu_hours"] == pytest.approx(1200 / 3600, abs=1e-6)
    assert half["total"]["busy_gpu_hours"] == pytest.approx(300 / 3600, abs=1e-6)


class UsageAgreesWithLeases(TestCase):
    """Whatever was held: rows, ranges and subtrees add up to the leases."""

    @settings(parent=tried(20), suppress_health_check=[HealthCheck.too_slow])
    @given(
        held=st.lists(
            st.tuples(st.booleans(), st.booleans(), st.integers(1, 4), st.integers(0, 300), st.integers(1, 300)),
            max_size=6,
        ),
        cut=st.integers(1, 299),
    )
    def test_sums(self, held: list[tuple[bool, bool, int, int, int]], cut: int) -> None:
        """The total is the sum of the rows, of the parts of the range, of the queues below, and of the leases."""
        org = queue_make(quota_gpus=8)
        leaves = [queue_make(parent=org), queue_make(parent=org)]
        users = [user_make(), user_make()]
        end = AT + timedelta(minutes=300)
        for first, second, gpus, begin, length in held:
            begins = AT + timedelta(minutes=begin)
            held_for(leaves[first], users[second], gpus=gpus, begin=begins, end=begins + timedelta(minutes=length))
        leases = Lease.objects.filter(attempt__job__queue__in=leaves)
        expected = sum(
            lease.num_gpus * max(0.0, (min(end, lease.closed_at or end) - lease.opened_at).total_seconds()) / 3600
            for lease in leases
        )

        def total(queue: Queue, since: datetime, until: datetime) -> float:
            found = usage(queue, since=since, until=until)
            rows = sum(row["allocated_gpu_hours"] for row in found["rows"])
            assert rows == pytest.approx(found["total"]["allocated_gpu_hours"], abs=1e-4)
            return float(found["total"]["allocated_gpu_hours"])

        middle = AT + timedelta(minutes=cut)
        assert total(org, AT, end) == pytest.approx(expected, abs=1e-4)
        assert total(org, AT, middle) + total(org, middle, end) == pytest.approx(expected, abs=1e-4)
        assert sum(total(leaf, AT, end) for leaf in leaves) == pytest.approx(expected, abs=1e-4)


@pytest.mark.django_db
def test_share_follows_leases_and_the_quota_of_that_time() -> None:
    """The quota was 4 and then 6: the line steps where it was changed, and means keep every GPU-hour."""
    admin = user_make(admin=True)
    vision = queue_make("vision", quota_gpus=4, created_at=AT - 10 * HOUR)
    held_for(vision, admin, gpus=3, begin=AT - 2 * HOUR, end=AT - HOUR)
    queue_change_quota(
        actor=admin,
        queue=vision,
        quota_gpus=6,
        max_gpus=None,
        weight=1.0,
        may_borrow=True,
        reason="more work",
        expected_version=1,
        at=AT - HOUR,
    )
    vision.refresh_from_db()

    series = share_series(vision, since=AT - 4 * HOUR, until=AT, points=4)

    assert series["held_gpus"] == [0.0, 0.0, 3.0, 0.0]
    assert series["quota_gpus"] == [4.0, 4.0, 6.0, 6.0]
    assert share_series(vision, since=AT - 30 * HOUR, until=AT - 20 * HOUR, points=4)["at"] == []


@pytest.mark.django_db
def test_ledger_tells_lender_borrower_and_what_is_lent_now() -> None:
    """Vision holds 4 beside a quota of 2 while speech leaves 2: speech lends them; a GPU without a quota goes first."""
    round_make(1, at=AT - 3 * HOUR, num_gpus=5)
    vision, speech = queue_make("vision", quota_gpus=2), queue_make("speech", quota_gpus=2)
    lea, oz = member_make(speech, Role.LEAD, name="lea"), member_make(speech, Role.VIEWER, name="oz")
    held_for(vision, user_make(), gpus=4, begin=AT - 2 * HOUR, end=None)

    found = loan_ledger(lea, speech, since=AT - 4 * HOUR, until=AT)
    vision_side = loan_ledger(user_make(admin=True), vision, since=AT - 4 * HOUR, until=AT)

    assert found["now"] == {"lent_gpus": 1.0, "borrowed_gpus": 0}
    assert found["rows"] == [
        {
            "lender": "speech",
            "borrower": "vision",
            "is_lent": True,
            "gpu_hours": 2.0,
            "gpus_now": 1.0,
            "ends_at": None,  # its jobs do not say how far they are
            "recalls": 0,
        }
    ]
    Job.objects.filter(queue=vision).update(step=40, total_steps=100, steps_per_s=0.01, progress_at=AT)
    lent = loan_ledger(lea, speech, since=AT - 4 * HOUR, until=AT)["rows"][0]
    assert lent["ends_at"] == iso(AT + timedelta(seconds=6_000))
    assert loan_ledger(oz, speech, since=AT - 4 * HOUR, until=AT)["rows"][0]["ends_at"] is None
    assert {(row["lender"], row["gpu_hours"]) for row in vision_side["rows"]} == {(NO_LENDER, 2.0), ("speech", 2.0)}
    # A viewer does not learn whose they are: only leads decide about loans.
    assert loan_ledger(oz, speech, since=AT - 4 * HOUR, until=AT)["rows"][0]["borrower"] == ANOTHER


@pytest.mark.django_db
def test_a_quota_taken_back_counts_for_the_queue_that_took_it() -> None:
    """Of two jobs of vision that left for a quota one says for whom: that is a recall of speech, and nobody has one."""
    round_make(1, at=AT - 3 * HOUR, num_gpus=10)
    vision, speech = queue_make("vision", quota_gpus=2), queue_make("speech", quota_gpus=4)
    owner = user_make()
    held_for(vision, owner, gpus=4, begin=AT - 2 * HOUR, end=AT - HOUR)
    held_for(vision, owner, gpus=4, begin=AT - 2 * HOUR, end=AT - HOUR)
    told, untold = Attempt.objects.order_by("pk")
    for attempt, by in ((told, job_make(speech, owner=owner)), (untold, None)):
        attempt.preempt_rule, attempt.stop_requested_at, attempt.preempted_by = "quota_reclaim", AT - HOUR, by
        attempt.save()

    rows = loan_ledger(user_make(admin=True), vision, since=AT - 4 * HOUR, until=AT)["rows"]

    assert {row["lender"]: row["recalls"] for row in rows} == {NO_LENDER: 0, "speech": 1}


@pytest.mark.django_db
def test_csv_and_json_say_the_same_and_names_are_no_formulas(settings: Any) -> None:
    """The link of the page, the Accept header and the JSON agree; a name that begins like a formula is text."""
    vision = queue_make("vision", quota_gpus=4)
    owner = user_make("-2+3")
    held_for(vision, owner, gpus=2, begin=AT, end=AT + HOUR)
    client = Client()
    client.force_login(user_make(admin=True))
    path = "/api/v1/queues/vision/usage?since=2026-03-07T00:00:00Z&until=2026-03-08T00:00:00Z"

    as_json = client.get(path).json()
    by_header = client.get(path, headers={"Accept": "text/csv"})
    by_link = client.get(f"{path}&format=csv")

    assert by_header.content == by_link.content
    assert by_link.headers["Content-Type"].startswith("text/csv")
    assert 'filename="usage-vision.csv"' in by_link.headers["Content-Disposition"]
    (row,) = csv.DictReader(io.StringIO(by_link.content.decode()))
    assert row["user"] == "'-2+3"
    assert float(row["allocated_gpu_hours"]) == as_json["rows"][0]["allocated_gpu_hours"] == 2.0
    assert client.get(f"{path}&format=xml").status_code == 400
    assert client.get("/api/v1/queues/vision/usage?since=2027-01-01").status_code == 400


def test_leads_read_what_each_column_of_the_csv_holds() -> None:
    """In the table of docs/leads.md; OpenAPI names them in their order."""
    text = (BASE_DIR / "docs/leads.md").read_text()
    described = [
        name for row in re.findall(r"^\| (`.*?) \|", text, re.MULTILINE) for name in re.findall("`(.*?)`", row)
    ]

    assert tuple(name for name in described if name in COLUMNS) == COLUMNS
    assert ", ".join(COLUMNS) in CSV_IS


def measured(job: Job, *seconds: float, gpu_frac: float | None = 0.5) -> Use:
    """Return the use of a job's attempt after reports so many seconds after AT, written."""
    use, attempt = Use(), job.attempts.get()
    for second in seconds:
        use.take(attempt.pk, at_s=AT.timestamp() + second, gpu_frac=gpu_frac)
    use.flush(now_s=1_000.0)
    return use


def held_from(job: Job, begin_s: float, end_s: float | None = None) -> Lease:
    """Let a job hold its GPUs from so many seconds after AT."""
    lease = Lease.objects.get(attempt__job=job)
    lease.opened_at = AT + timedelta(seconds=begin_s)
    lease.closed_at = None if end_s is None else AT + timedelta(seconds=end_s)
    lease.save()
    return lease


@pytest.mark.django_db
def test_busy_time_is_kept_by_the_hour_of_the_user() -> None:
    """Four reports a second apart at half speed on two GPUs: three busy GPU-seconds of six, once."""
    vision, owner = queue_make("vision"), user_make()
    job = job_make(vision, state=JobState.RUNNING, owner=owner, num_gpus=2)
    held_from(job, -5)
    use = measured(job, 0, 1, 2, 3)
    use.take(job.attempts.get().pk, at_s=AT.timestamp() + 4, gpu_frac=None)

    use.flush(now_s=2_000.0)

    row = UsageHour.objects.get()
    assert (row.queue, row.user, row.hour) == (vision, owner, AT.replace(minute=0))
    assert (row.measured_gpu_s, row.busy_gpu_s) == (6.0, 3.0)


@pytest.mark.django_db
def test_measured_is_never_more_than_allocated() -> None:
    """The first report of an attempt comes 0.4 s after its lease was opened; the last when the lease is closed."""
    vision = queue_make("vision")
    job = job_make(vision, state=JobState.RUNNING, num_gpus=2)
    lease = held_from(job, 0.5, 3.2)
    measured(job, 0.9, 2.1, 3.2)
    row = UsageHour.objects.get()

    assert row.measured_gpu_s == pytest.approx(2 * 2.3)
    assert lease.closed_at is not None
    assert row.measured_gpu_s <= 2 * (lease.closed_at - lease.opened_at).total_seconds()


@pytest.mark.django_db
def test_a_clock_that_is_set_back_stops_no_measuring() -> None:
    """Time counts on from there, and not only once the clock is where it was."""
    job = job_make(queue_make("vision"), state=JobState.RUNNING, owner=user_make(), num_gpus=2)
    held_from(job, -5_000)

    use = measured(job, 0, 1)
    use.take("ended since", at_s=AT.timestamp() + 1, gpu_frac=0.5)
    for now_s, seconds in ((2_000.0, (-3_000, -2_999)), (3_000.0, (-2_998,))):
        for second in seconds:
            use.take(job.attempts.get().pk, at_s=AT.timestamp() + second, gpu_frac=0.5)
        use.flush(now_s=now_s)

    assert sum(UsageHour.objects.values_list("measured_gpu_s", flat=True)) == 6.0


@pytest.mark.django_db
def test_the_gap_between_two_attempts_is_not_measured() -> None:
    """A job that was resumed within the longest time a report may count for held no GPU in between."""
    job = job_make(state=JobState.COMPLETED, num_gpus=1)
    held_from(job, 0, 2)
    first = job.attempts.get()
    second = Attempt.objects.get(pk=first.pk)
    second.pk, second.number = "01SECOND", first.number + 1
    second.save(force_insert=True)
    use = Use()
    for attempt, at_s in ((first, 0), (first, 2), (second, 8), (second, 9)):
        use.take(attempt.pk, at_s=AT.timestamp() + at_s, gpu_frac=1.0)
    lease = Lease.objects.get(attempt=first)
    lease.pk, lease.attempt, lease.opened_at = None, second, AT + timedelta(seconds=7)
    lease.closed_at = AT + timedelta(seconds=9)
    lease.save(force_insert=True)
    use.flush(now_s=1_000.0)

    assert UsageHour.objects.get().measured_gpu_s == 3.0


@pytest.mark.django_db
def test_measured_time_counts_for_the_gpus_held_in_it() -> None:
    """Four GPUs for two seconds, then one for two: ten GPU-seconds, however many it holds at the end."""
    job = job_make(state=JobState.RUNNING, num_gpus=4)
    lease = held_from(job, 0, 2)
    lease.pk, lease.num_gpus, lease.opened_at, lease.closed_at = None, 1, AT + timedelta(seconds=2), None
    lease.save(force_insert=True)
    measured(job, 0, 1, 2, 3, 4)

    assert UsageHour.objects.get().measured_gpu_s == 10.0


@pytest.mark.django_db
def test_measured_time_is_in_the_hour_that_it_was_measured_in() -> None:
    """Three seconds before the full hour and one after it, written once it is over."""
    job = job_make(state=JobState.RUNNING, num_gpus=1)
    held_from(job, 0)
    full_s = (AT.replace(minute=0) + HOUR - AT).total_seconds()
    measured(job, full_s - 3, full_s + 1)

    hours = UsageHour.objects.order_by("hour").values_list("hour", "measured_gpu_s")
    assert list(hours) == [(AT.replace(minute=0), 3.0), (AT.replace(minute=0) + HOUR, 1.0)]
