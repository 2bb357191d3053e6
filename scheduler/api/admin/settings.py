"""``/settings`` and ``/policies``: the settings of the scheduler, and the policies to choose from."""

from typing import Any

from drf_spectacular.utils import OpenApiExample, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from scheduler.api.http.bodies import Body, ReasonField, read_body
from scheduler.api.http.documents import document_of
from scheduler.api.http.permissions import ADMIN, READ
from scheduler.api.http.preconditions import etag, expected_version, guarded
from scheduler.api.http.view import ApiView
from scheduler.choices import Choice, Choices, choices
from scheduler.models import Cluster
from scheduler.options import Parameter
from scheduler.ports import live_ports
from scheduler.services.cluster.settings import cluster_row, settings_change


@extend_schema_field({"type": ["boolean", "number", "string", "array"], "items": {"type": "number"}})
class OptionValue(serializers.JSONField):
    """A value of an option."""


OptionDocument = document_of(Parameter, "OptionDocument", default=OptionValue)
ChoiceDocument = document_of(Choice, "ChoiceDocument", parameters=OptionDocument)
ChoicesDocument = document_of(
    Choices,
    "ChoicesDocument",
    policies=ChoiceDocument,
    localities=ChoiceDocument,
    mechanisms=ChoiceDocument,
    introspections=ChoiceDocument,
)


class SettingsDocument(serializers.Serializer[Any]):  # documentation only
    """How rounds decide."""

    policy = serializers.CharField(help_text="Which jobs run first.")
    policy_options = serializers.DictField()
    locality = serializers.CharField(help_text="Which sets of servers a job may use.")
    locality_options = serializers.DictField()
    mechanism = serializers.CharField(help_text="How CPU and memory are given.")
    mechanism_options = serializers.DictField()
    introspection = serializers.ListField(
        child=serializers.CharField(), help_text="What is tried on running jobs, in the order in which it acts."
    )
    introspection_options = serializers.DictField(child=serializers.DictField(), help_text="Options by name.")
    min_run_s = serializers.FloatField(
        help_text="The order of the policy does not stop a job that has run for less time since it started or resumed."
    )
    paused = serializers.BooleanField(help_text="Whether nothing new starts.")
    smoke_run_s = serializers.FloatField(help_text="Jobs of several GPUs run so long on one first; 0: they do not.")
    user_most_queued = serializers.IntegerField(help_text="Jobs that one user may have queued.")
    spec_most_bytes = serializers.IntegerField(help_text="Bytes that the spec of a job may take, files included.")
    experiment_most_jobs = serializers.IntegerField(help_text="Configurations that an experiment may have.")
    code_most_bytes = serializers.IntegerField(help_text="Bytes of one sent folder.")
    code_most_files = serializers.IntegerField(help_text="Files of one sent folder.")
    version = serializers.IntegerField(help_text="The number in the ETag.")


class ChosenBody(Body):
    """Policy, locality and mechanism with their options; what is left out stays."""

    policy = serializers.CharField(max_length=40, required=False)
    policy_options = serializers.DictField(required=False)
    locality = serializers.CharField(max_length=40, required=False)
    locality_options = serializers.DictField(required=False)
    mechanism = serializers.CharField(max_length=40, required=False)
    mechanism_options = serializers.DictField(required=False)


class SettingsBody(ChosenBody):
    """A change; what is left out stays."""

    introspection = serializers.ListField(child=serializers.CharField(max_length=40), max_length=20, required=False)
    introspection_options = serializers.DictField(child=serializers.DictField(), required=False)
    min_run_s = serializers.FloatField(required=False)
    paused = serializers.BooleanField(required=False)
    smoke_run_s = serializers.FloatField(required=False)
    user_most_queued = serializers.IntegerField(required=False)
    spec_most_bytes = serializers.IntegerField(required=False)
    experiment_most_jobs = serializers.IntegerField(required=False)
    code_most_bytes = serializers.IntegerField(required=False)
    code_most_files = serializers.IntegerField(required=False)
    reason = ReasonField()


# What a change may name, in the order in which it is answered.
SETTINGS = tuple(name for name in SettingsBody().get_fields() if name != "reason")


class Policies(ApiView):
    """What there is to choose from."""

    rules = {"GET": READ}

    @extend_schema(operation_id="policy_list", summary="List policies", responses={200: ChoicesDocument})
    def get(self, request: Request) -> Response:
        """List every policy, locality and mechanism with its options."""
        return Response(choices())


def _answer(cluster: Cluster) -> Response:
    body = {field: getattr(cluster, field) for field in SETTINGS} | {"version": cluster.settings_version}
    return Response(body, headers={"ETag": etag(cluster.settings_version)})


class Settings(ApiView):
    """How rounds decide."""

    rules = {"GET": READ, "PATCH": ADMIN}
    versioned = frozenset({"PATCH"})

    @extend_schema(operation_id="settings_read", summary="Read the settings", responses={200: SettingsDocument})
    def get(self, request: Request) -> Response:
        """Return how rounds decide now; the ETag is what a change needs."""
        return _answer(cluster_row())

    @extend_schema(
        operation_id="settings_change",
        summary="Change the settings",
        request=SettingsBody,
        responses={200: SettingsDocument},
        examples=[OpenApiExample("Another policy", {"policy": "srtf", "reason": "It was faster."}, request_only=True)],
    )
    def patch(self, request: Request) -> Response:
        """Change how rounds decide, from the next round on. A new policy begins with its default options."""
        version = expected_version(request, present=cluster_row().settings_version)
        changes = read_body(request, SettingsBody)
        reason, at = changes.pop("reason"), live_ports().clock.now()
        with guarded():
            cluster = settings_change(
                actor=request.user, changes=changes, expected_version=version, at=at, reason=reason
            )
        return _answer(cluster)
