"""``/rounds``: past rounds with their decisions and reasons."""

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from scheduler.api.cluster.round_documents import RoundDocument, RoundPage
from scheduler.api.http.pagination import PAGE, Order
from scheduler.api.http.permissions import READ
from scheduler.api.http.view import ApiView
from scheduler.selectors.cluster.rounds import round_detail, round_list, round_row

NEWEST_FIRST = Order(name="-number", column="number", tie="number")


class Rounds(ApiView):
    """Past rounds."""

    rules = {"GET": READ}
    query = {"GET": PAGE}

    @extend_schema(operation_id="round_list", summary="List rounds", responses={200: RoundPage})
    def get(self, request: Request) -> Response:
        """List rounds, newest first, without their decisions."""
        return self.page(request, round_list(request.user), NEWEST_FIRST, round_row)


class RoundDetail(ApiView):
    """One round."""

    rules = {"GET": READ}

    @extend_schema(operation_id="round_read", summary="Read a round", responses={200: RoundDocument})
    def get(self, request: Request, number: int) -> Response:
        """Return what one round decided. Jobs of queues that you may not see have no name here."""
        return Response(round_detail(request.user, number))
