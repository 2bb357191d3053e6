"""Rows of a busy cluster, a day at a time: ended jobs with attempts, leases, events, estimates, samples; rounds."""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Count, Sum

from scheduler.core.model.lifecycle import TERMINAL, JobState
from scheduler.models import (
    Attempt,
    Event,
    Gpu,
    Job,
    JobDay,
    Lease,
    LeaseGpu,
    Queue,
    Round,
    Sample,
    StartEstimate,
    UsageHour,
)
from scheduler.models.event import SampleScope
from scheduler.ports import ulid_text
from scheduler.selectors.cluster.fairness import jct_summary
from scheduler.selectors.cluster.gpu_hours import gpu_hours
from scheduler.selectors.cluster.rounds import round_list
from scheduler.selectors.jobs.listing import JobFilters, job_list
from scheduler.selectors.queues.usage import usage
from scheduler.services.cluster.settings import cluster_row
from tests.support.rows.factories import member_make, queue_make, server_make, spec_make, user_make

TEAMS, SERVERS = 8, 8
JOBS_A_PERSON = 250  # a day
EVENTS_A_JOB = 6
JOBS_A_ROUND = 2
ENDS = (JobState.COMPLETED, JobState.COMPLETED, JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED)
ACTIVE = [state for state in JobState if state not in TERMINAL]
BATCH = 500
# Rows that stand in no table: says how fast database and reader are at the moment.
BASELINE = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) SELECT i FROM n"
SAMPLE_S = 60  # what is left of samples after a day
DAY_S = 86_400.0


class LivedYear:
    """The cluster.

    Attributes:
        jobs_a_day: How many jobs end each day.
        gpu_hours: Of all jobs so far.
    """

    def __init__(self, *, jobs_a_day: int, start: datetime, has_samples: bool) -> None:
        self.jobs_a_day, self.gpu_hours, self._has_samples = jobs_a_day, 0.0, has_samples
        self._start = start
        people = max(1, jobs_a_day // JOBS_A_PERSON // TEAMS)
        self._org = queue_make("org", quota_gpus=64)
        self._teams = [queue_make(f"org/team-{number}", parent=self._org, quota_gpus=8) for number in range(TEAMS)]
        self._owners = [[member_make(team) for _ in range(people)] for team in self._teams]
        for number in range(SERVERS):
            server_make(f"server-{number:02d}", gpus=8)
        self._gpus = list(Gpu.objects.order_by("server_id", "index"))
        self._admin = user_make("admin", admin=True)
        self._spec = spec_make(queue=self._teams[0].name, resources={"gpus": 1}).to_json()
        cluster_row()

    @transaction.atomic
    def day(self, day: int) -> None:
        """Write what happened on one day; the first has number 1."""
        begins, first = self._start + timedelta(days=day - 1), (day - 1) * self.jobs_a_day
        jobs = [self._job(first + place, begins) for place in range(1, self.jobs_a_day + 1)]
        Job.objects.bulk_create(jobs, batch_size=BATCH)
        attempts = [self._attempt(job) for job in jobs]
        Attempt.objects.bulk_create(attempts, batch_size=BATCH)
        leases = [self._lease(attempt) for attempt in attempts]
        Lease.objects.bulk_create(leases, batch_size=BATCH)
        LeaseGpu.objects.bulk_create(
            (LeaseGpu(lease=lease, gpu=self._gpu(lease.attempt), released_at=lease.closed_at) for lease in leases),
            batch_size=BATCH,
        )
        Event.objects.bulk_create(
            (
                Event(at=job.state_changed_at, kind="job_state", actor="scheduler", job=job, number=number,
                      queue=job.queue, new_state=job.state, request_id="of-a-request" if number == 1 else "")
                for job in jobs for number in range(1, EVENTS_A_JOB + 1)
            ),
            batch_size=BATCH,
        )  # fmt: skip
        StartEstimate.objects.bulk_create(
            (StartEstimate(job=job, round_number=1, made_at=job.submitted_at, closed_at=job.ended_at) for job in jobs),
            batch_size=BATCH,
        )
        if self._has_samples:
            Sample.objects.bulk_create((sample for job in jobs for sample in self._samples(job)), batch_size=BATCH)
        self._rounds(day, begins)

    @staticmethod
    def _samples(job: Job) -> Iterator[Sample]:
        assert job.ended_at is not None
        for minute in range(int((job.ended_at - job.submitted_at).total_seconds()) // SAMPLE_S):
            values = {"step": minute * 60, "loss": 1.0, "steps_per_s": 1.0, "measured_s": {"loss": 60.0}}
            at = job.submitted_at + timedelta(seconds=minute * SAMPLE_S)
            yield Sample(scope=SampleScope.JOB, scope_id=job.pk, at=at, resolution_s=SAMPLE_S, values=values)

    def _job(self, number: int, begins: datetime) -> Job:
        team = number % TEAMS
        owners = self._owners[team]
        place = (number - 1) % self.jobs_a_day
        at = begins + timedelta(seconds=DAY_S * place / self.jobs_a_day)
        ended_at, state = at + timedelta(minutes=20 + number % 90), ENDS[number % len(ENDS)]
        gpu_s = (ended_at - at).total_seconds()
        self.gpu_hours += gpu_s / 3_600
        return Job(
            id=ulid_text(int(at.timestamp() * 1_000), number), number=number, name=f"train-{number % 400}",
            queue=self._teams[team], owner=owners[number // TEAMS % len(owners)], spec=self._spec, num_gpus=1,
            state=state, state_changed_at=ended_at, event_count=EVENTS_A_JOB, wait_reason="", submitted_at=at,
            first_started_at=at, ended_at=ended_at, end_cause="completed", attained_gpu_s=gpu_s, executed_s=gpu_s,
        )  # fmt: skip

    @staticmethod
    def _attempt(job: Job) -> Attempt:
        return Attempt(
            id=job.pk, job=job, number=1, num_gpus=1, epoch=1, round_number=1, state="ended",
            created_at=job.submitted_at, started_at=job.first_started_at, ended_at=job.ended_at, end_cause="completed",
        )  # fmt: skip

    def _gpu(self, attempt: Attempt) -> Gpu:
        return self._gpus[attempt.job.number % len(self._gpus)]

    def _lease(self, attempt: Attempt) -> Lease:
        return Lease(
            attempt=attempt, server_id=self._gpu(attempt).server_id, num_gpus=1, cpus=1.0, memory_bytes=2**30, epoch=1,
            generation=1, opened_at=attempt.created_at, closed_at=attempt.ended_at,
        )  # fmt: skip

    def _rounds(self, day: int, begins: datetime) -> None:
        count = self.jobs_a_day // JOBS_A_ROUND
        grants = [
            {"job": job, "state": "kept", "seats": [{"server": 1, "gpus": 1, "cpus": 1.0, "memory_bytes": 1}]}
            for job in range(64)
        ]
        Round.objects.bulk_create(
            (
                Round(
                    number=(day - 1) * count + place + 1, epoch=1, trigger="submit", duration_s=0.01, policy="las",
                    started_at=begins + timedelta(seconds=DAY_S * place / count), locality="x", mechanism="x",
                    num_jobs=64, num_running=64, num_launched=1, num_preempted=0, num_waiting=0, num_gpus=64,
                    num_gpus_granted=64, snapshot_hash="0" * 64, plan_hash="0" * 64, decisions={"grants": grants},
                )
                for place in range(count)
            ),
            batch_size=BATCH,
        )  # fmt: skip

    def settle(self) -> None:
        """Let the database do what it does by itself between two days."""
        with connection.cursor() as cursor:
            cursor.execute("VACUUM ANALYZE" if connection.vendor == "postgresql" else "ANALYZE")

    def size(self) -> dict[str, int]:
        """Return rows, those of the sums that stay for ever, and bytes on the disk."""
        models = (Job, Attempt, Lease, LeaseGpu, Event, StartEstimate, Sample, Round)
        sums = UsageHour.objects.count() + JobDay.objects.count()
        with connection.cursor() as cursor:
            if connection.vendor == "postgresql":
                cursor.execute("SELECT pg_database_size(current_database())")
                num_bytes = cursor.fetchone()[0]
            else:
                cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                num_bytes = Path(str(settings.DATABASES["default"]["NAME"])).stat().st_size
        return {
            "rows": sum(model._default_manager.count() for model in models),
            "rows_of_sums": sums,
            "bytes": num_bytes,
        }

    @staticmethod
    def baseline() -> None:
        """Read rows that no table grows by."""
        with connection.cursor() as cursor:
            cursor.execute(BASELINE)
            cursor.fetchall()

    def kept_jobs(self) -> int:
        """Return how many jobs are still there."""
        return Job.objects.count()

    def jobs_by_the_sums(self) -> int:
        """Return how many jobs ended, of those kept and those gone."""
        gone: int = JobDay.objects.aggregate(n=Sum("num_jobs"))["n"] or 0
        return gone + Job.objects.filter(state__in=TERMINAL).count()

    def gpu_hours_by_the_sums(self) -> float:
        """Return the GPU-hours of the year as the usage of the queue has them."""
        found = usage(self._org, since=self._start, until=self._start + timedelta(days=367))
        return float(found["total"]["allocated_gpu_hours"])

    def queries(self, at: datetime) -> dict[str, Callable[[], object]]:
        """Return what pages ask most, as of a moment."""
        day, month = at - timedelta(days=1), at - timedelta(days=30)
        team, admin = Queue.objects.get(pk=self._teams[0].pk), self._admin
        newest = Job.objects.order_by("-number")[0].pk
        return {
            "job list": lambda: list(job_list(admin, JobFilters()).order_by("-number")[:50]),
            "failed jobs of a queue": lambda: list(
                job_list(admin, JobFilters(queue=team.name, states=(JobState.FAILED,))).order_by("-number")[:50]
            ),
            "events of a job": lambda: list(Event.objects.filter(job=newest)),
            "feed of a queue": lambda: list(Event.objects.filter(queue=team).order_by("-id")[:30]),
            "active jobs by state": lambda: list(
                Job.objects.filter(state__in=ACTIVE).order_by().values_list("state").annotate(n=Count("pk"))
            ),
            "completion times of a day": lambda: jct_summary(admin, day),
            "GPU-hours of a queue, 30 days": lambda: usage(team, since=month, until=at),
            "GPU-hours of the cluster, 1 day": lambda: gpu_hours(admin, since=day, until=at),
            "rounds": lambda: list(round_list(admin)[:50]),
        }
