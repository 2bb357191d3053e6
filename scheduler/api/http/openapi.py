"""Parameters, headers and errors of every operation in the OpenAPI document, read from the view's rules."""

from typing import Any

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers

from scheduler.api.http.permissions import Rule, rule_of

DEVICES_HEADER = "Clusterweb-Devices"
DEVICES = OpenApiParameter(
    name=DEVICES_HEADER,
    location=OpenApiParameter.HEADER,
    response=[200],
    description="What the devices of the cluster are, `gpu`, `cpu_slot` or both; sentences and fields always say GPU.",
)
IF_MATCH = OpenApiParameter(
    name="If-Match",
    location=OpenApiParameter.HEADER,
    required=True,
    type={"type": "string", "examples": ['"7"']},
    description="The ETag of what you read. 412 when somebody changed it since, 428 when the header is missing.",
)
IDEMPOTENCY_KEY = OpenApiParameter(
    name="Idempotency-Key",
    location=OpenApiParameter.HEADER,
    type={"type": "string", "maxLength": 200},
    description=(
        "Any text of your own. The same key and body again give the first answer again, marked with "
        "`Idempotency-Replayed: true`; another body 422; a request still running 409. Kept for 24 hours."
    ),
)
MEANING = {
    "400": "The request is malformed; `errors` has one entry per bad field or parameter. No unknown one is ignored.",
    "401": "No sign-in, or a token that is unknown, expired or revoked.",
    "403": "The token's scope or the user's role does not allow this.",
    "404": "No such object, or not one that you may see.",
    "406": "`Accept` asks for what this route does not answer in.",
    "409": "Not possible in its present state, or (`first_still_runs`) the first request with this key still runs.",
    "412": "It changed since you read it.",
    "413": "The body is too large.",
    "415": "`Content-Type` is none that this route reads.",
    "422": "The Idempotency-Key was used for another request.",
    "428": "If-Match is missing.",
    "429": "Too many requests; see `Retry-After`.",
    "503": "The database did not answer in time; see `Retry-After`.",
}
EXAMPLES: dict[str, dict[str, Any]] = {  # OpenAPI
    "400": {
        "example": {
            "type": "urn:clusterweb:problem:invalid",
            "title": "Bad request",
            "status": 400,
            "detail": "One field is wrong.",
            "instance": "/api/v1/jobs",
            "request_id": "9f2c4e6a8b0d",
            "errors": [
                {
                    "pointer": "/resources/gpus",
                    "code": "capacity",
                    "detail": "GPUs must be between 1 and 8. You asked for 64.",
                }
            ],
        }
    }
}


class FieldProblem(serializers.Serializer[Any]):  # documentation only
    """One bad field."""

    pointer = serializers.CharField(help_text="JSON pointer into the body, or ?name for a query parameter.")
    code = serializers.CharField(help_text="Short stable word.")
    detail = serializers.CharField(help_text="What is wrong and what would be right.")


class ProblemDocument(serializers.Serializer[Any]):  # documentation only
    """Every error has this shape (RFC 9457)."""

    type = serializers.CharField(help_text="urn:clusterweb:problem:<code>; stable.")
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField()
    instance = serializers.CharField(help_text="Path of the request.")
    request_id = serializers.CharField(help_text="Also in the X-Request-Id header and in our logs.")
    errors = FieldProblem(many=True)  # type: ignore[assignment]  # a field; the class takes it from the attribute


class ApiSchema(AutoSchema):
    """Reads rules and parameters from the view, so that they are declared once."""

    def _api_view(self) -> Any:  # an ApiView, which imports this module
        return self.view

    def _rule(self) -> Rule | None:
        return rule_of(self.view, self.method)

    def get_override_parameters(self) -> list[Any]:  # the base class takes serializers as well
        """Return the declared query parameters and the headers that the method understands."""
        found = [parameter.document() for parameter in self._api_view().query.get(self.method, ())]
        if self.method in self._api_view().repeatable:
            found.append(IDEMPOTENCY_KEY)
        if self.method in self._api_view().versioned:
            found.append(IF_MATCH)
        if self._api_view().names_devices:
            found.append(DEVICES)
        return found

    def get_tags(self) -> list[str]:
        """Return the resource: the first word of the path after the version."""
        return [self.path.removeprefix("/api/v1/").split("/")[0]]

    def get_auth(self) -> list[dict[str, Any]]:  # OpenAPI security requirements
        """Return what signs a caller in; nothing for public operations."""
        rule = self._rule()
        return [] if rule is not None and rule.public else super().get_auth()

    def get_description(self) -> str:  # type: ignore[override]  # as drf-spectacular has it
        """Return the docstring of the method with what a token needs."""
        described: str = super().get_description()
        rule = self._rule()
        if rule is None or rule.public:
            return described
        needs = [f"scope `{rule.scope}`"] if rule.scope else []
        needs += ["an admin"] if rule.admins_only else []
        return f"{described}\n\nNeeds: {' and '.join(needs)}." if needs else described

    def get_operation(self, *args: Any, **kwargs: Any) -> dict[str, Any] | None:  # signature of the base class
        """Return the operation with the errors that it can answer."""
        operation: dict[str, Any] | None = super().get_operation(*args, **kwargs)
        if operation is None:
            return None
        shape = self.resolve_serializer(ProblemDocument, "response").ref
        for status in self._problems():
            operation["responses"].setdefault(
                status,
                {
                    "description": MEANING[status],
                    "content": {"application/problem+json": {"schema": shape} | EXAMPLES.get(status, {})},
                },
            )
        return operation

    def _problems(self) -> list[str]:
        rule = self._rule()
        found = {"400", "406", "429", "503"}
        if rule is not None and not rule.public:
            found |= {"401", "403"}
        if self.method in {"POST", "PUT", "PATCH"}:
            found |= {"413", "415"}
        if "{" in self.path:
            found.add("404")
        if self.method in self._api_view().repeatable:
            found |= {"409", "422"}
        if self.method in self._api_view().versioned:
            found |= {"412", "428"}
        return sorted(found)
