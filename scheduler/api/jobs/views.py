"""``/jobs``: submit, list, read, and what an owner or lead does with one job."""

from collections.abc import Callable
from datetime import UTC, datetime, time
from functools import partial
from typing import Any

from django.http import QueryDict
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response

from scheduler.api.http import parameters
from scheduler.api.http.bodies import Body, WholeNumberField, read_body
from scheduler.api.http.idempotency import once
from scheduler.api.http.pagination import PAGE, Order
from scheduler.api.http.parsers import JsonBody, YamlBody
from scheduler.api.http.permissions import READ, WRITE_JOBS
from scheduler.api.http.view import ApiView
from scheduler.api.jobs.documents import SUBMIT_EXAMPLES, JobDocument, JobPage, SpecDocument, SpecForm
from scheduler.api.jobs.files.views import told
from scheduler.api.jobs.reason_documents import ChangeBody, DryRunDocument
from scheduler.api.jobs.spec_form import spec_of_form
from scheduler.core.model.lifecycle import PREPARING, JobState
from scheduler.core.model.plan import WaitReason
from scheduler.core.spec.command_hints import command_warnings
from scheduler.core.spec.launch import launch_words
from scheduler.core.spec.limits import PRIORITY
from scheduler.core.spec.spec import JobSpec
from scheduler.core.spec.units import counted
from scheduler.models import Job
from scheduler.ports import live_ports
from scheduler.selectors.files.archive import MOST_PATHS
from scheduler.selectors.files.names import MOST_PATH
from scheduler.selectors.jobs.listing import JobFilters, job_detail, job_list, job_row
from scheduler.selectors.jobs.reason_rows import CheckRow, DryRun, JobPreview
from scheduler.selectors.queues.isolation import QueueIsolation, queue_isolation
from scheduler.selectors.visibility import require_job
from scheduler.services.code.git import git_fetch
from scheduler.services.jobs.cancel_suspend_resume import job_cancel, job_resume, job_suspend
from scheduler.services.jobs.change import job_change
from scheduler.services.jobs.check import job_check_dry, job_checked
from scheduler.services.jobs.directory import job_discard, job_keep
from scheduler.services.jobs.priority import job_reprioritise
from scheduler.services.jobs.restore import job_restore
from scheduler.services.jobs.submit import jobs_store
from scheduler.whatif.one_job.preview import job_preview

# What a list may be sorted by, and the column it means; every one also with ``-`` in front.
COLUMNS = {
    "number": "number",
    "submitted_at": "submitted_at",
    "state_changed_at": "state_changed_at",
    "gpus": "num_gpus",
    "priority": "priority",
    "name": "name",
}
ORDERINGS = tuple(sign + name for name in COLUMNS for sign in ("", "-"))
FILTERS = (
    parameters.choices("state", "Only jobs in one of these states.", [*(state.value for state in JobState), PREPARING]),
    parameters.text("queue", "Only jobs of this queue and the queues below it.", most=120),
    parameters.text("owner", "Only jobs of this user.", most=150),
    parameters.instant("submitted_after", "Only jobs submitted at this moment or later."),
    parameters.instant("submitted_before", "Only jobs submitted before this moment."),
    parameters.integer("gpus__gte", "Only jobs that ask for at least so many GPUs.", most=1_000_000),
    parameters.integer("gpus__lte", "Only jobs that ask for at most so many GPUs.", most=1_000_000),
    parameters.text("search", "Part of the name, or a job number with or without `J-`.", most=120),
    parameters.flag("idle", "Only running jobs whose GPUs do nothing for longer than their queue allows."),
    parameters.choice("ordering", "What comes first.", ORDERINGS, default="-number"),
)


def _checks(spec: JobSpec, preview: JobPreview, isolation: QueueIsolation) -> list[CheckRow]:
    """Return what was checked, in the order in which a job meets it."""
    array: list[CheckRow] = []
    if spec.array is not None:
        most = spec.array.most_at_work
        at_once = f", {most} of them at work at once" if most else ""
        array.append({"name": "array", "ok": True, "text": f"{counted(spec.num_jobs, 'job')}{at_once}."})
    is_paused = preview["reason"] == WaitReason.POLICY_PAUSED
    return [
        {"name": "spec", "ok": True, "text": "Every field is known and within its range."},
        {"name": "launch", "ok": True, "text": f"Its command starts {launch_words(spec.starts_per, spec.resources)}."},
        *array,
        {"name": "queue", "ok": True, "text": f"You may submit to {spec.queue}."},
        {"name": "isolation", "ok": isolation.is_met, "text": f"Jobs of {spec.queue} start {isolation.where}."},
        {"name": "cluster", "ok": bool(preview["feasible"]) and not is_paused, "text": preview["sentence"]},
    ]


class Jobs(ApiView):
    """Jobs that you may see."""

    rules = {"GET": READ, "POST": WRITE_JOBS}
    names_devices = True
    query = {
        "GET": (*PAGE, *FILTERS),
        "POST": (parameters.flag("dry_run", "Say what would become of it, and store nothing."),),
    }
    repeatable = frozenset({"POST"})
    parser_classes = [JsonBody, YamlBody, MultiPartParser]

    @extend_schema(operation_id="job_list", summary="List jobs", responses={200: JobPage})
    def get(self, request: Request) -> Response:
        """List the jobs that you may see, newest first unless ordered otherwise."""
        p = self.params
        filters = JobFilters(
            states=tuple(JobState(word) for word in p["state"] if word != PREPARING),
            is_preparing=PREPARING in p["state"],
            queue=p["queue"],
            owner=p["owner"],
            search=p["search"],
            submitted_after=p["submitted_after"],
            submitted_before=p["submitted_before"],
            min_gpus=p["gpus__gte"],
            max_gpus=p["gpus__lte"],
            is_idle=p["idle"],
        )
        name = p["ordering"]
        order = Order(name=name, column=COLUMNS[name.removeprefix("-")], tie="number")
        return self.page(request, job_list(request.user, filters), order, job_row)

    @extend_schema(
        operation_id="job_submit",
        summary="Submit a job",
        request={"application/json": SpecDocument, "application/yaml": SpecDocument, "multipart/form-data": SpecForm},
        responses={
            201: OpenApiResponse(JobDocument, description="Stored and queued; `Location` is its address."),
            200: OpenApiResponse(DryRunDocument, description="With `dry_run=true`: what would become of it."),
        },
        examples=SUBMIT_EXAMPLES,
    )
    def post(self, request: Request) -> Response:
        """Submit a job: JSON, YAML, or a form with a part `spec` and any number of parts `file`.

        `curl -F spec=@job.yaml -F file=@train.py` lays the files into the working directory of the job.
        """
        data = spec_of_form(request.data) if isinstance(request.data, QueryDict) else request.data
        git_fetch(actor=request.user, specs=[("", data)], at=live_ports().clock.now())
        if self.params["dry_run"]:
            checked, too_large = job_check_dry(actor=request.user, data=data)
            preview = job_preview(checked=checked, too_large=too_large, at=live_ports().clock.now())
            spec = checked.spec
            answer: DryRun = {
                "spec": spec.to_json(),
                "checks": _checks(spec, preview, queue_isolation(checked.queue)),
                "warnings": command_warnings(spec.command),
                "preview": preview,
            }
            return Response(answer)

        def submit() -> tuple[int, Any, str]:
            checked = job_checked(actor=request.user, data=data)
            ports = live_ports()
            [job] = jobs_store([checked], at=ports.clock.now(), ids=ports.ids)
            return 201, job_detail(request.user, job, checked.access), f"/api/v1/jobs/{job.pk}"

        return once(request, data, submit)


class JobDetail(ApiView):
    """One job."""

    rules = {"GET": READ}
    names_devices = True

    @extend_schema(operation_id="job_read", summary="Read a job", responses={200: JobDocument})
    def get(self, request: Request, job: str) -> Response:
        """Return everything about one job; `job` is its id, its number, or `J-` and its number."""
        return Response(job_detail(request.user, require_job(request.user, job)))


class _JobAction(ApiView):
    """Something done with one job; answers with the job as it is afterwards."""

    rules = {"POST": WRITE_JOBS}
    repeatable = frozenset({"POST"})

    def act(self, request: Request, job: str, service: Callable[..., Job], body: object = None) -> Response:
        """Call the service once for this body and answer with the job."""

        def make() -> tuple[int, Any, str]:
            found = require_job(request.user, job)
            changed = service(actor=request.user, job=found, at=live_ports().clock.now())
            return 200, job_detail(request.user, changed), ""

        return once(request, body, make)


class JobCancel(_JobAction):
    """End a job for good."""

    @extend_schema(operation_id="job_cancel", summary="Cancel a job", request=None, responses={200: JobDocument})
    def post(self, request: Request, job: str) -> Response:
        """End a job for good. A queued job is cancelled at once; a running one may write a last checkpoint first."""
        return self.act(request, job, job_cancel)


class JobSuspend(_JobAction):
    """Suspend a job."""

    @extend_schema(operation_id="job_suspend", summary="Suspend a job", request=None, responses={200: JobDocument})
    def post(self, request: Request, job: str) -> Response:
        """Suspend a job until it is resumed; a running one checkpoints and gives its GPUs back."""
        return self.act(request, job, job_suspend)


class JobResume(_JobAction):
    """Continue a suspended job."""

    @extend_schema(operation_id="job_resume", summary="Resume a job", request=None, responses={200: JobDocument})
    def post(self, request: Request, job: str) -> Response:
        """Put a suspended job back in its queue; it continues from its last checkpoint."""
        return self.act(request, job, job_resume)


class JobRestore(_JobAction):
    """Take a cancel back."""

    @extend_schema(operation_id="job_restore", summary="Take a cancel back", request=None, responses={200: JobDocument})
    def post(self, request: Request, job: str) -> Response:
        """Take the cancel of a job that waited back, within 10 minutes; it keeps its number and its place."""
        return self.act(request, job, job_restore)


class KeepBody(Body):
    """How long the files of a job are kept: one of the two."""

    until = serializers.DateField(
        required=False,
        allow_null=True,
        help_text="Last day (UTC), up to a year ahead; null: as long as the queue of the job keeps files.",
    )
    days = serializers.IntegerField(required=False, help_text="So many more days than they are kept now.")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Want one of the two."""
        if len(attrs) != 1:
            raise serializers.ValidationError({"until": "Give until, a date or null, or days: one of the two."})
        return attrs


class JobKeep(_JobAction):
    """Keep what an ended job left."""

    @extend_schema(
        operation_id="job_keep", summary="Keep a job's directory longer", request=KeepBody, responses={200: JobDocument}
    )
    def post(self, request: Request, job: str) -> Response:
        """Keep the directory of a job that has ended for longer than its queue does; `kept_until` says until when.

        It counts against the limits of the queue all the same, and beyond them the oldest directories go first.
        """
        body = read_body(request, KeepBody)
        last_day = body.get("until")
        until = last_day and datetime.combine(last_day, time(23, 59, 59), UTC)
        return self.act(request, job, partial(job_keep, until=until, days=body.get("days")), body)


class DiscardBody(Body):
    """What of the directory goes."""

    paths = serializers.ListField(
        child=serializers.CharField(max_length=MOST_PATH, trim_whitespace=False),  # "out " is not "out"
        required=False,
        max_length=MOST_PATHS,
        help_text="Files and folders, as the list of its files shows them; the whole directory when absent.",
    )

    def validate_paths(self, paths: list[str]) -> list[str]:
        """Want one at least: an empty list is no wish for all."""
        if not paths:
            raise serializers.ValidationError("Name a file, or leave paths out for the whole directory.")
        return paths


class JobDiscard(_JobAction):
    """Free the space that an ended job takes."""

    @extend_schema(
        operation_id="job_discard", summary="Remove a job's files", request=DiscardBody, responses={200: JobDocument}
    )
    def post(self, request: Request, job: str) -> Response:
        """Remove the directory of a job that has ended, or files in it, for good; a server does it within a minute."""
        body = read_body(request, DiscardBody)

        def discard(**given: Any) -> Job:  # as of a service
            with told():
                return job_discard(paths=body.get("paths", ()), **given)

        return self.act(request, job, discard, body or None)


class PriorityBody(Body):
    """How urgent a job is from now on."""

    priority = WholeNumberField(
        min_value=PRIORITY[0], max_value=PRIORITY[1], help_text="Larger goes first where the policy looks at it."
    )


class JobReprioritise(_JobAction):
    """How urgent a job is."""

    @extend_schema(
        operation_id="job_reprioritise",
        summary="Change the priority of a job",
        request=PriorityBody,
        responses={200: JobDocument},
    )
    def post(self, request: Request, job: str) -> Response:
        """Give a job that has not ended another priority; its spec shows it, and the next round looks at it."""
        body = read_body(request, PriorityBody)
        return self.act(request, job, partial(job_reprioritise, priority=body["priority"]), body)


class JobUnblock(_JobAction):
    """Something else that a waiting job asks for."""

    @extend_schema(
        operation_id="job_unblock",
        summary="Change what a waiting job asks for",
        request=ChangeBody,
        responses={200: JobDocument},
    )
    def post(self, request: Request, job: str) -> Response:
        """Let a waiting job ask for other GPUs, servers, cores or memory, or wait in another queue; it keeps its id.

        The changes that were tried and would start it are in `unblock` of `GET /jobs/{id}/explain`.
        """
        change = read_body(request, ChangeBody)
        return self.act(request, job, partial(job_change, change=change), change)
