"""``/search``: what a few letters mean to the caller."""

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from scheduler.api.http import parameters
from scheduler.api.http.documents import document_of
from scheduler.api.http.permissions import READ
from scheduler.api.http.view import ApiView
from scheduler.ports import live_ports
from scheduler.selectors.search import KINDS, MOST_LETTERS, Found, JobHit, PersonHit, QueueHit, ServerHit, search

FoundDocument = document_of(
    Found,
    "FoundDocument",
    jobs=document_of(JobHit),
    servers=document_of(ServerHit),
    queues=document_of(QueueHit),
    people=document_of(PersonHit),
)


class Search(ApiView):
    """Jobs, servers, queues and people by name."""

    rules = {"GET": READ}
    query = {
        "GET": (
            parameters.text("q", "Part of a name, or a job's number.", most=MOST_LETTERS),
            parameters.choices("only", "Only these kinds; all when absent.", KINDS),
        )
    }

    @extend_schema(operation_id="search", summary="Search by name", responses={200: FoundDocument})
    def get(self, request: Request) -> Response:
        """Return the first few jobs, servers, queues and people that match and that you may see."""
        kinds = tuple(kind for kind in KINDS if not self.params["only"] or kind in self.params["only"])
        return Response(search(request.user, self.params["q"], live_ports().clock.now(), kinds=kinds))
