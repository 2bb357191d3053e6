"""What is kept for how long: the one table of the clean-up, which the admin page shows.

Four ages are settings (``KEEP_*_DAYS``); the others follow from what the rows are for.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.contrib.sessions.models import Session
from django.db.models import Exists, OuterRef, Q, QuerySet

from scheduler.models import (
    Delivery,
    Environment,
    Event,
    IdempotencyKey,
    Job,
    Round,
    Scenario,
    ShadowScore,
    Trial,
    UsageHour,
)
from scheduler.models.job import ENDED
from scheduler.models.scenario import SCENARIO_OPEN
from scheduler.models.webhook import DeliveryState
from scheduler.services.code.collect import code_unneeded

IDEMPOTENCY_KEYS = timedelta(days=1)
SENT_FOLDERS = timedelta(days=30)
ENVIRONMENTS = timedelta(days=30)
DELIVERIES = timedelta(days=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """One kind of rows and how long it is kept.

    Attributes:
        name: Key of the kind.
        title: What an admin reads.
        days: Age at which rows go; None where each row says so itself.
        setting: Environment variable that sets it, or column of each queue; empty where none does.
        rows: Rows that can go by age at all.
        shown: Rows that an admin sees counted, where some cannot go yet; None where they are ``rows``.
        age: Column that the age is counted from.
        note: What goes with them, or what stays of them.
    """

    name: str
    title: str
    days: int | None
    setting: str
    rows: QuerySet  # type: ignore[type-arg]  # of any model
    age: str
    note: str
    shown: QuerySet | None = None  # type: ignore[type-arg]  # as ``rows``

    @property
    def all_rows(self) -> QuerySet:  # type: ignore[type-arg]  # as ``rows``
        """Return all rows of the kind, those that cannot go yet included."""
        return self.rows if self.shown is None else self.shown

    def old(self, at: datetime) -> QuerySet:  # type: ignore[type-arg]  # as ``rows``
        """Return the rows that are older than the policy allows, oldest first."""
        since = at - timedelta(days=self.days or 0)
        return self.rows.filter(**{f"{self.age}__lt": since}).order_by(self.age, "pk")


def policy() -> tuple[Kept, ...]:
    """Return the policy as the settings have it."""
    jobs, rounds = settings.KEEP_JOBS_DAYS, settings.KEEP_ROUNDS_DAYS
    of_nothing = Event.objects.filter(job=None)
    return (
        Kept(
            name="jobs",
            title="Ended jobs",
            days=jobs,
            setting="KEEP_JOBS_DAYS",
            # Not before its directory is gone: only the row knows of it.
            rows=Job.objects.filter(state__in=ENDED).filter(
                Q(directory_bytes=None) | Q(directory_removed_at__isnull=False)
            ),
            shown=Job.objects.filter(state__in=ENDED),
            age="ended_at",
            note="with attempts, leases, events and estimates; GPU-hours and counts by day stay",
        ),
        Kept(
            name="usage_hours",
            title="GPU use by the hour",
            days=jobs,
            setting="KEEP_JOBS_DAYS",
            rows=UsageHour.objects.filter(num_hours=1),
            age="hour",
            note="of each user in each queue; then by the day, for ever",
        ),
        Kept(
            name="directories",
            title="Directories of ended jobs",
            days=None,
            setting="keep_directories_days",
            rows=Job.objects.filter(state__in=ENDED, directory_bytes__isnull=False, directory_removed_at=None),
            age="ended_at",
            note="in the shared directory; each queue says how long, 30 days unless it is changed, and users for a job",
        ),
        Kept(
            name="rounds",
            title="Rounds",
            days=rounds,
            setting="KEEP_ROUNDS_DAYS",
            rows=Round.objects.all(),
            age="started_at",
            note="with their decisions",
        ),
        Kept(
            name="trials",
            title="Trials of introspection",
            days=rounds,
            setting="KEEP_ROUNDS_DAYS",
            rows=Trial.objects.filter(place=None),
            age="ended_at",
            note="that are over",
        ),
        Kept(
            name="audit",
            title="Audit entries",
            days=settings.KEEP_AUDIT_DAYS,
            setting="KEEP_AUDIT_DAYS",
            rows=of_nothing.exclude(request_id=""),
            age="at",
            note="of queues, settings, users and servers; those of jobs go with the jobs",
        ),
        Kept(
            name="events",
            title="Events of servers, queues and the scheduler",
            days=jobs,
            setting="KEEP_JOBS_DAYS",
            rows=of_nothing.filter(request_id=""),
            age="at",
            note="that are no audit entries",
        ),
        Kept(
            name="scenarios",
            title="Ended what-if scenarios",
            days=settings.KEEP_WHATIF_DAYS,
            setting="KEEP_WHATIF_DAYS",
            rows=Scenario.objects.exclude(state__in=SCENARIO_OPEN),
            age="ended_at",
            note="with their runs",
        ),
        Kept(
            name="shadow_scores",
            title="Scores of the shadow policy",
            days=jobs,
            setting="KEEP_JOBS_DAYS",
            rows=ShadowScore.objects.all(),
            age="at",
            note="",
        ),
        Kept(
            name="code",
            title="Sent folders",
            days=SENT_FOLDERS.days,
            setting="",
            rows=code_unneeded(),
            age="used_at",
            note="from the last submit on, and as long as a job needs them; with contents that no other folder holds",
        ),
        Kept(
            name="environments",
            title="Python environments",
            days=ENVIRONMENTS.days,
            setting="",
            rows=Environment.objects.filter(~Exists(Job.objects.filter(environment=OuterRef("pk")))),
            age="used_at",
            note="what they are made of, once no job that names them is left; what servers built goes when their cache "
            "is full",
        ),
        Kept(
            name="deliveries",
            title="Messages to webhooks and by mail",
            days=DELIVERIES.days,
            setting="",
            rows=Delivery.objects.exclude(state=DeliveryState.WAITING),
            shown=Delivery.objects.all(),
            age="created_at",
            note="those that are still to be sent stay",
        ),
        Kept(
            name="sessions",
            title="Sessions",
            days=None,
            setting="",
            rows=Session.objects.all(),
            age="expire_date",
            note="until they expire",
        ),
        Kept(
            name="idempotency_keys",
            title="Answers for repeated requests",
            days=IDEMPOTENCY_KEYS.days,
            setting="",
            rows=IdempotencyKey.objects.all(),
            age="created_at",
            note="",
        ),
    )
