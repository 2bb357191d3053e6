"""``/queues``: quotas, limits, idle jobs and members of queues, and the forecast of another quota."""

from collections.abc import Callable, Sequence

from django.contrib.auth.models import User
from drf_spectacular.utils import OpenApiExample, OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response

from agents.protocol.isolation import LEVEL_MEANING
from scheduler.api.http.bodies import Body, OneOfField, ReasonField, WholeNumberField, read_body
from scheduler.api.http.idempotency import once
from scheduler.api.http.openapi import MEANING, ProblemDocument
from scheduler.api.http.pagination import whole_list
from scheduler.api.http.permissions import ADMIN, READ, WHAT_IF, WRITE_QUEUES
from scheduler.api.http.preconditions import etag, expected_version, guarded
from scheduler.api.http.view import ApiView, with_text_id
from scheduler.api.queues.documents import ForecastDocument, MembersDocument, QueueDocument, QueuePage
from scheduler.core.operations.idle import IdleAction
from scheduler.models import Queue
from scheduler.models.queue import Role
from scheduler.ports import live_ports
from scheduler.selectors.queues.tree import queue_detail, queue_list
from scheduler.selectors.rows import Json
from scheduler.selectors.visibility import require_queue
from scheduler.services.queues.create import queue_create
from scheduler.services.queues.directories import KEEP_DAYS, MOST_BYTES, queue_keep_directories
from scheduler.services.queues.idle import AFTER_S, queue_set_idle
from scheduler.services.queues.isolation import queue_demand_isolation
from scheduler.services.queues.members import membership_remove, membership_set
from scheduler.services.queues.quotas import MOST_GPUS, QUOTA_FIELDS, WEIGHTS, Quota, SiblingQuota, queue_change_quota
from scheduler.services.queues.user_limits import queue_limit_users
from scheduler.whatif.quota_forecast import quota_forecast


class QueueBody(Body):
    """A new queue."""

    name = serializers.CharField(max_length=120, help_text="Full name, unique; need not begin with the parent's.")
    parent = serializers.CharField(  # type: ignore[assignment]  # a field; the class takes it from the attribute
        max_length=120, allow_null=True, default=None, help_text="Name of the queue above; null for a queue at the top."
    )
    quota_gpus = WholeNumberField(min_value=0, max_value=MOST_GPUS, help_text="Guaranteed GPUs.")
    max_gpus = WholeNumberField(
        min_value=0, max_value=MOST_GPUS, allow_null=True, default=None, help_text="Most GPUs ever; null: no limit."
    )
    weight = serializers.FloatField(
        min_value=WEIGHTS[0],
        max_value=WEIGHTS[1],
        default=1.0,
        help_text="Share of idle quota, relative to its siblings.",
    )
    may_borrow = serializers.BooleanField(default=True, help_text="Whether it may use idle quota of others.")


class QuotaFields(Body):
    """What a queue may hold; what is left out stays."""

    quota_gpus = WholeNumberField(min_value=0, max_value=MOST_GPUS, required=False)
    max_gpus = WholeNumberField(min_value=0, max_value=MOST_GPUS, allow_null=True, required=False)
    weight = serializers.FloatField(min_value=WEIGHTS[0], max_value=WEIGHTS[1], required=False)
    may_borrow = serializers.BooleanField(required=False)
    moves = serializers.DictField(
        child=WholeNumberField(min_value=0, max_value=MOST_GPUS),
        default=dict,
        help_text="New quotas of queues beside it, by name, so that GPUs move from one to the other in one step.",
    )


class QuotaBody(QuotaFields):
    """A change of what a queue may hold."""

    reason = ReasonField()


class LimitsBody(Body):
    """What one user may have in a queue; what is left out stays."""

    user_max_gpus = WholeNumberField(
        min_value=1, max_value=MOST_GPUS, allow_null=True, required=False, help_text="Held at once; null: no limit."
    )
    user_max_queued = WholeNumberField(
        min_value=1, max_value=MOST_GPUS, allow_null=True, required=False, help_text="Queued; null: no limit."
    )
    reason = ReasonField()


class IdleBody(Body):
    """What becomes of jobs that hold GPUs without using them; what is left out stays."""

    idle_after_s = WholeNumberField(
        min_value=AFTER_S[0],
        max_value=AFTER_S[1],
        allow_null=True,
        required=False,
        help_text="How long they may, seconds; null: never checked.",
    )
    idle_action = OneOfField(IdleAction, required=False, help_text="What follows a grace after it was told.")
    reason = ReasonField()


class IsolationBody(Body):
    """How far apart servers must keep jobs for those of the queue to start there."""

    isolation = OneOfField(
        LEVEL_MEANING,
        help_text="files: jobs of other queues cannot open its files; user: a unix user of its own; full: both.",
    )
    reason = ReasonField()


class KeptFilesBody(Body):
    """How long a queue keeps the directories of ended jobs; a field that is missing stays as it is."""

    keep_directories_days = WholeNumberField(
        min_value=KEEP_DAYS[0], max_value=KEEP_DAYS[1], required=False, help_text="Days after the end of a job."
    )
    directories_most_bytes = WholeNumberField(
        min_value=MOST_BYTES[0],
        max_value=MOST_BYTES[1],
        allow_null=True,
        required=False,
        help_text="Of all jobs together; beyond it the oldest go early; null: no limit.",
    )
    user_directories_most_bytes = WholeNumberField(
        min_value=MOST_BYTES[0],
        max_value=MOST_BYTES[1],
        allow_null=True,
        required=False,
        help_text="The same for the jobs of each user; null: no limit.",
    )
    confirmed_jobs = serializers.IntegerField(
        min_value=0,
        required=False,
        help_text="Files of so many ended jobs may be removed by this change; without it, a change that removes some "
        "is refused and tells how many.",
    )
    reason = ReasonField()


class MemberBody(Body):
    """A role."""

    role = OneOfField(Role.values)


def _answer(request: Request, queue: Queue) -> Response:
    return Response(with_text_id(queue_detail(request.user, queue)), headers={"ETag": etag(queue.version)})


def _changed(
    request: Request, name: str, shape: type[Body], service: Callable[..., Queue], *, columns: Sequence[str]
) -> Response:
    """Change columns of a queue by a service, those that the body leaves out as they are, and answer with the queue."""
    queue = require_queue(request.user, name)
    version = expected_version(request, present=queue.version)
    body = read_body(request, shape)
    values = {column: body.get(column, getattr(queue, column)) for column in columns}
    if "moves" in body:
        values["moves"] = moves_of(request, body)
    if "confirmed_jobs" in body:
        values["confirmed_jobs"] = body["confirmed_jobs"]
    at = live_ports().clock.now()
    with guarded():
        queue = service(
            actor=request.user, queue=queue, reason=body["reason"], expected_version=version, at=at, **values
        )
    return _answer(request, queue)


class Queues(ApiView):
    """Queues that you may see."""

    rules = {"GET": READ, "POST": ADMIN}
    repeatable = frozenset({"POST"})

    @extend_schema(operation_id="queue_list", summary="List queues", responses={200: QueuePage})
    def get(self, request: Request) -> Response:
        """List the queues in which you have a role, parents before children."""
        return Response(whole_list([with_text_id(row) for row in queue_list(request.user)]))

    @extend_schema(
        operation_id="queue_create",
        summary="Create a queue",
        request=QueueBody,
        responses={
            201: QueueDocument,
            (404, "application/problem+json"): OpenApiResponse(ProblemDocument, description=MEANING["404"]),
        },
        examples=[OpenApiExample("A team's queue", {"name": "vision", "quota_gpus": 16}, request_only=True)],
    )
    def post(self, request: Request) -> Response:
        """Create a queue."""

        def make() -> tuple[int, dict[str, object], str]:
            body = read_body(request, QueueBody)
            parent = require_queue(request.user, body.pop("parent")) if body["parent"] else None
            body.pop("parent", None)
            queue = queue_create(actor=request.user, parent=parent, at=live_ports().clock.now(), **body)
            return 201, with_text_id(queue_detail(request.user, queue)), f"/api/v1/queues/{queue.name}"

        return once(request, request.data, make)


class QueueDetail(ApiView):
    """One queue."""

    rules = {"GET": READ, "PATCH": WRITE_QUEUES}
    versioned = frozenset({"PATCH"})

    @extend_schema(operation_id="queue_read", summary="Read a queue", responses={200: QueueDocument})
    def get(self, request: Request, name: str) -> Response:
        """Return one queue; its ETag is what a change of its quota needs."""
        return _answer(request, require_queue(request.user, name))

    @extend_schema(
        operation_id="queue_change_quota",
        summary="Change a quota",
        request=QuotaBody,
        responses={200: QueueDocument},
        examples=[OpenApiExample("Two more", {"quota_gpus": 18, "reason": "New project starts."}, request_only=True)],
    )
    def patch(self, request: Request, name: str) -> Response:
        """Change what the queue may hold, from the next round on. Admins, and leads of the queue above."""
        return _changed(request, name, QuotaBody, queue_change_quota, columns=QUOTA_FIELDS)


class QuotaForecast(ApiView):
    """What another quota would do."""

    rules = {"POST": WHAT_IF}

    @extend_schema(
        operation_id="queue_forecast",
        summary="Ask what another quota would do",
        request=QuotaFields,
        responses={200: ForecastDocument},
        examples=[OpenApiExample("Two more", {"quota_gpus": 18}, request_only=True)],
    )
    def post(self, request: Request, name: str) -> Response:
        """Say what every queue is to expect in the next 24 h (6 h in a very large cluster), now and with another quota.

        Nothing is stored. For leads of the queue, and admins. Other queues appear with their figures, and with the
        sizes of jobs that the next round would start or stop, never with their names.
        """
        queue = require_queue(request.user, name)
        body = read_body(request, QuotaFields)
        after = Quota(**{column: body.get(column, getattr(queue, column)) for column in QUOTA_FIELDS})
        moves, at = moves_of(request, body), live_ports().clock.now()
        return Response(quota_forecast(actor=request.user, queue=queue, after=after, moves=moves, at=at))


def moves_of(request: Request, body: Json) -> list[SiblingQuota]:
    """Return the new quotas of siblings that a body names."""
    return [
        SiblingQuota(queue=require_queue(request.user, name), quota_gpus=gpus) for name, gpus in body["moves"].items()
    ]


class UserLimits(ApiView):
    """What each user may have in a queue at most."""

    rules = {"PATCH": WRITE_QUEUES}
    versioned = frozenset({"PATCH"})

    @extend_schema(
        operation_id="queue_limit_users",
        summary="Limit the users of a queue",
        request=LimitsBody,
        responses={200: QueueDocument},
        examples=[OpenApiExample("At most 8", {"user_max_gpus": 8, "reason": "Deadline week."}, request_only=True)],
    )
    def patch(self, request: Request, name: str) -> Response:
        """Limit what each user may hold and queue, from the next round on. Nothing is stopped. Leads of the queue."""
        return _changed(request, name, LimitsBody, queue_limit_users, columns=("user_max_gpus", "user_max_queued"))


class IdleJobs(ApiView):
    """What becomes of the jobs of a queue that hold GPUs without using them."""

    rules = {"PATCH": WRITE_QUEUES}
    versioned = frozenset({"PATCH"})

    @extend_schema(
        operation_id="queue_set_idle",
        summary="Say what becomes of idle jobs",
        request=IdleBody,
        responses={200: QueueDocument},
        examples=[
            OpenApiExample(
                "Suspend after two hours",
                {"idle_after_s": 7200, "idle_action": "suspend", "reason": "Others wait."},
                request_only=True,
            )
        ],
    )
    def patch(self, request: Request, name: str) -> Response:
        """Say how long jobs may hold GPUs without using them, and what follows. Leads of the queue.

        Their owners are told at once; a job that computes on its cores or makes steps is never stopped for it.
        """
        return _changed(request, name, IdleBody, queue_set_idle, columns=("idle_after_s", "idle_action"))


class Isolation(ApiView):
    """How far apart servers must keep jobs for those of a queue to start there."""

    rules = {"PATCH": WRITE_QUEUES}
    versioned = frozenset({"PATCH"})

    @extend_schema(
        operation_id="queue_demand_isolation",
        summary="Demand isolation of servers",
        request=IsolationBody,
        responses={200: QueueDocument},
        examples=[
            OpenApiExample("A user of its own", {"isolation": "user", "reason": "Patients' data."}, request_only=True)
        ],
    )
    def patch(self, request: Request, name: str) -> Response:
        """Demand it from the next round on, for the queue and all below it. Nothing is stopped. Leads of the queue."""
        return _changed(request, name, IsolationBody, queue_demand_isolation, columns=("isolation",))


class KeptFiles(ApiView):
    """How long a queue keeps the directories of ended jobs, and how much they may take."""

    rules = {"PATCH": WRITE_QUEUES}
    versioned = frozenset({"PATCH"})

    @extend_schema(
        operation_id="queue_keep_files",
        summary="Keep files of ended jobs",
        request=KeptFilesBody,
        responses={200: QueueDocument},
        examples=[
            OpenApiExample("Two weeks", {"keep_directories_days": 14, "reason": "Disk is full."}, request_only=True)
        ],
    )
    def patch(self, request: Request, name: str) -> Response:
        """Say it for the jobs of the queue itself. Jobs that have not ended keep all. Leads of the queue."""
        columns = ("keep_directories_days", "directories_most_bytes", "user_directories_most_bytes")
        return _changed(request, name, KeptFilesBody, queue_keep_directories, columns=columns)


class Members(ApiView):
    """Users with a role in the queue itself; roles given above it hold here as well."""

    rules = {"GET": READ}

    @extend_schema(operation_id="member_list", summary="List members", responses={200: MembersDocument})
    def get(self, request: Request, name: str) -> Response:
        """List who was given a role in this queue."""
        return Response(whole_list(queue_detail(request.user, require_queue(request.user, name))["members"]))


class Member(ApiView):
    """The role of one user in one queue."""

    rules = {"PUT": WRITE_QUEUES, "DELETE": WRITE_QUEUES}

    @extend_schema(
        operation_id="member_set", summary="Give a role", request=MemberBody, responses={200: MembersDocument}
    )
    def put(self, request: Request, name: str, username: str) -> Response:
        """Give a user a role, or another one. Leads of the queue."""
        queue = require_queue(request.user, name)
        role = Role(read_body(request, MemberBody)["role"])
        membership_set(actor=request.user, queue=queue, user=_user(username), role=role, at=live_ports().clock.now())
        return Response(whole_list(queue_detail(request.user, queue)["members"]))

    @extend_schema(
        operation_id="member_remove",
        summary="Take a role away",
        responses={204: OpenApiResponse(description="The user has no role of this queue's own any more.")},
    )
    def delete(self, request: Request, name: str, username: str) -> Response:
        """Take a user's role in this queue away. Leads of the queue."""
        queue = require_queue(request.user, name)
        membership_remove(actor=request.user, queue=queue, user=_user(username), at=live_ports().clock.now())
        return Response(status=204)


def _user(username: str) -> User:
    user = User.objects.filter(username=username, is_active=True).first()
    if user is None:
        raise NotFound(f"There is no user {username[:150]!r}.")
    return user
