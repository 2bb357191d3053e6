"""``/experiments``: searches over many configurations of one job."""

from collections.abc import Mapping
from typing import Annotated, Any, TypedDict

from drf_spectacular.utils import OpenApiExample, OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from scheduler.api.http import parameters
from scheduler.api.http.bodies import Body, OneOfField, read_body
from scheduler.api.http.documents import document_of, page_of
from scheduler.api.http.idempotency import once
from scheduler.api.http.pagination import NEWEST_FIRST, PAGE
from scheduler.api.http.permissions import READ, WRITE_JOBS
from scheduler.api.http.view import ApiView
from scheduler.core.model.errors import FieldError, SpecInvalid
from scheduler.ports import live_ports
from scheduler.selectors.jobs.many.experiment_rows import ConfigurationRow, ExperimentDetail, ExperimentRow
from scheduler.selectors.jobs.many.experiments import (
    experiment_detail,
    experiment_row,
    experiments_visible,
    require_experiment,
)
from scheduler.selectors.rows import Json
from scheduler.services.code.git import git_fetch
from scheduler.services.jobs.experiments import experiment_cancel, experiment_check, experiment_submit
from scheduler.services.jobs.spec_text import spec_from_text
from scheduler.services.jobs.suggestions import SAMPLERS

EXAMPLE = {
    "job": {
        "apiVersion": "v1",
        "name": "resnet-lr",
        "queue": "vision",
        "command": ["python", "train.py", "--lr", "{lr}", "--width", "{width}"],
    },
    "space": {"lr": {"low": 1e-4, "high": 1, "log": True}, "width": {"choices": [16, 32, 64]}},
    "sampler": "tpe",
    "configurations": 100,
    "total_steps": 4000,
    "feedback_steps": 200,
    "target_loss": 0.1,
}


GRID = {
    "job": {"apiVersion": "v1", "name": "lr", "queue": "vision", "command": ["python", "train.py", "--lr", "{lr}"]},
    "space": {"lr": "0.1,0.01,0.001"},
    "sampler": "grid",
}


class ExperimentBody(Body):
    """Configurations of one job: all of a grid, a sample of it, or a search for a target."""

    job = serializers.DictField(
        default=None,
        allow_null=True,
        help_text="Spec of every job, with `{name}` in command, env and name where parameters go.",
    )
    spec = serializers.CharField(default="", allow_blank=True, help_text="The same as text, YAML or JSON.")
    code = serializers.CharField(default="", allow_blank=True, help_text="Manifest of the sent folder it starts in.")
    space = serializers.DictField(
        help_text="Parameters by name: `low` and `high` (`log`, `integer`), `choices`, or text: `0.1,0.01`, `1..5`."
    )
    sampler = OneOfField(list(SAMPLERS), default="random")
    seed = serializers.IntegerField(default=0)
    configurations = serializers.IntegerField(
        default=None, allow_null=True, help_text="How many are tried at most; null for all of a grid."
    )
    total_steps = serializers.IntegerField(
        default=None, allow_null=True, help_text="Of a search: mini-batches of one configuration from begin to end."
    )
    feedback_steps = serializers.IntegerField(
        default=None,
        allow_null=True,
        help_text="Of a search: each is judged after this many, then after twice as many, ...",
    )
    target_loss = serializers.FloatField(
        default=None,
        allow_null=True,
        help_text="It ends when the loss of one configuration is no more than this; null: all run to their end.",
    )


ExperimentRowDocument = document_of(ExperimentRow)
ExperimentDocument = document_of(
    ExperimentDetail,
    "ExperimentDocument",
    members=document_of(ConfigurationRow, "ConfigurationDocument"),
)
ExperimentPage = page_of(ExperimentRowDocument, "ExperimentPage", "A page of experiments.")


def _with_job(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body with the job that it gives as it is or as text. Raises SpecInvalid."""
    data = {name: value for name, value in body.items() if name not in ("spec", "code")}
    if (body["job"] is None) == (not body["spec"]):
        detail = "Give job, the spec of every job, or spec, the same as text: one of the two."
        raise SpecInvalid([FieldError(pointer="/job", code="required", detail=detail)])
    job = body["job"] if body["spec"] == "" else spec_from_text(body["spec"])
    if body["code"] and isinstance(job, dict):
        job = {**job, "code": {"manifest": body["code"]}}
    return {**data, "job": job}


class ConfigurationsRow(TypedDict):
    """What an experiment would try."""

    count: Annotated[int, "How many configurations."]
    configurations: Annotated[list[Json], "Their values in order; of tpe the first alone."]
    command: Annotated[list[str], "Of the first job."]


ConfigurationsDocument = document_of(ConfigurationsRow)


class Experiments(ApiView):
    """All experiments."""

    rules = {"GET": READ, "POST": WRITE_JOBS}
    query = {
        "GET": PAGE,
        "POST": (parameters.flag("dry_run", "Say which configurations there would be, and store nothing."),),
    }
    repeatable = frozenset({"POST"})

    @extend_schema(operation_id="experiment_list", summary="List experiments", responses={200: ExperimentPage})
    def get(self, request: Request) -> Response:
        """List the experiments of your queues, newest first."""
        return self.page(request, experiments_visible(request.user), NEWEST_FIRST, experiment_row)

    @extend_schema(
        operation_id="experiment_submit",
        summary="Begin an experiment",
        request=ExperimentBody,
        responses={
            201: OpenApiResponse(ExperimentDocument, description="Begun; read it at `Location`."),
            200: OpenApiResponse(ConfigurationsDocument, description="With `dry_run=true`: what would be tried."),
        },
        examples=[
            OpenApiExample("A search by TPE", EXAMPLE, request_only=True),
            OpenApiExample("A grid", GRID, request_only=True),
        ],
    )
    def post(self, request: Request) -> Response:
        """Submit many configurations of one job, which share GPU time by how promising they are.

        They take turns, and so give feedback early, where the introspection `slicing` is chosen.
        """
        data = _with_job(read_body(request, ExperimentBody))
        git_fetch(actor=request.user, specs=[("/job", data["job"])], at=live_ports().clock.now())
        if self.params["dry_run"]:
            found = experiment_check(actor=request.user, data=data)
            answer: ConfigurationsRow = {
                "count": found.size,
                "configurations": [dict(values) for values in found.configurations()],
                "command": list(found.first.spec.command),
            }
            return Response(answer)

        def make() -> tuple[int, Any, str]:
            ports = live_ports()
            made = experiment_submit(actor=request.user, data=data, at=ports.clock.now(), ids=ports.ids)
            return 201, experiment_detail(made), f"/api/v1/experiments/{made.pk}"

        return once(request, data, make)


class ExperimentRead(ApiView):
    """One experiment."""

    rules = {"GET": READ}

    @extend_schema(operation_id="experiment_read", summary="Read an experiment", responses={200: ExperimentDocument})
    def get(self, request: Request, experiment: str) -> Response:
        """Return one experiment with all its configurations."""
        return Response(experiment_detail(require_experiment(request.user, experiment)))


class ExperimentCancel(ApiView):
    """End an experiment."""

    rules = {"POST": WRITE_JOBS}
    repeatable = frozenset({"POST"})

    @extend_schema(
        operation_id="experiment_cancel",
        summary="Cancel an experiment",
        request=None,
        responses={200: ExperimentDocument},
    )
    def post(self, request: Request, experiment: str) -> Response:
        """End an experiment and all its jobs."""

        def make() -> tuple[int, Any, str]:
            found = require_experiment(request.user, experiment)
            done = experiment_cancel(actor=request.user, experiment=found, at=live_ports().clock.now())
            return 200, experiment_detail(done), ""

        return once(request, None, make)
