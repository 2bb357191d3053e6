"""``/audit``: who did what, when, and what was before and after. It is read; nothing writes, changes or deletes it."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from scheduler.api.http import parameters
from scheduler.api.http.documents import Facts, Shape, moment, text
from scheduler.api.http.pagination import PAGE, Order, Page, PageFields
from scheduler.api.http.permissions import ADMIN
from scheduler.api.http.view import ApiView
from scheduler.selectors.accounts.audit import KINDS, audit_list, audit_row

NEWEST_FIRST = Order(name="-id", column="id", tie="id")


class AuditDocument(Shape):
    """One thing that somebody did."""

    id = serializers.IntegerField()
    at = moment(null=False)
    who = text('User name; "operator" for a command on the machine itself.')
    kind = text("What it was done to.")
    did = text("Short code of what was done.")
    job = text(null=True)
    queue = text(null=True)
    server = text(null=True)
    before = Facts(allow_null=True)
    after = Facts(allow_null=True)
    why = text("As they wrote it.")
    data = Facts()  # type: ignore[assignment]  # a field; the class takes it from the attribute
    request_id = text("Also in the X-Request-Id header of the answer, and in our logs.")


class AuditPage(PageFields):
    """A page of the audit list."""

    results = AuditDocument(many=True)


class Audit(ApiView):
    """What people did."""

    rules = {"GET": ADMIN}
    query = {
        "GET": (
            *PAGE,
            parameters.text("who", "User name.", most=150),
            parameters.choice("kind", "What it was done to.", list(KINDS)),
            parameters.text("what", "`J-<number>`, or the name of a queue or a server.", most=120),
            parameters.text("request_id", "What one request did.", most=24),
            parameters.instant("since", "Not before."),
            parameters.instant("until", "Before."),
        )
    }

    @extend_schema(operation_id="audit_list", summary="Read the audit list", responses={200: AuditPage})
    def get(self, request: Request) -> Response:
        """List what people did, newest first. Each accepted write has an entry with the id of its request."""
        p: dict[str, Any] = dict(self.params)
        rows = audit_list(
            request.user,
            who=p["who"],
            kind=p["kind"] or "",
            what=p["what"],
            request_id=p["request_id"],
            since=p["since"],
            until=p["until"],
        )
        page = Page(rows=rows, order=NEWEST_FIRST, params=self.params)
        return Response(page.body(request, audit_row))
