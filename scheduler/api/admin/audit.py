"""``/audit``: changes that users made, with the values before and after. Read only."""

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from scheduler.api.http import parameters
from scheduler.api.http.documents import document_of, page_of
from scheduler.api.http.pagination import NEWEST_FIRST, PAGE
from scheduler.api.http.permissions import ADMIN
from scheduler.api.http.view import ApiView
from scheduler.selectors.accounts.audit import KINDS, audit_list, audit_row
from scheduler.selectors.accounts.rows import AuditRow

AuditDocument = document_of(AuditRow, "AuditDocument")
AuditPage = page_of(AuditDocument, "AuditPage", "A page of the audit list.")


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
        p = self.params
        rows = audit_list(
            request.user,
            who=p["who"],
            kind=p["kind"] or "",
            what=p["what"],
            request_id=p["request_id"],
            since=p["since"],
            until=p["until"],
        )
        return self.page(request, rows, NEWEST_FIRST, audit_row)
