"""``/overview``: what a live page reads when it connects; alerts, servers that free, the feed; ``/me``: the caller."""

from collections.abc import Callable
from datetime import timedelta

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from scheduler.api.cluster.overview_documents import (
    AlertList,
    EventList,
    MeDocument,
    NextFreeList,
    OverviewDocument,
)
from scheduler.api.http import parameters
from scheduler.api.http.authentication import signed_in, token_of
from scheduler.api.http.pagination import whole_list
from scheduler.api.http.permissions import ADMIN, READ, SIGNED_IN
from scheduler.api.http.view import ApiView, with_text_id
from scheduler.ports import live_ports
from scheduler.selectors.accounts.rows import MeRow
from scheduler.selectors.cluster.alerts import alerts
from scheduler.selectors.cluster.next_free import next_free
from scheduler.selectors.cluster.overview import (
    cluster_now,
    cluster_series,
    fairness,
    feed,
    gpu_map,
    jct_summary,
    queue_shares,
)
from scheduler.selectors.queues.tree import queue_list
from scheduler.selectors.times import iso

FEED_ROWS = 50
DAY_S = 86_400.0
PARTS = ("cluster", "series", "queues", "servers", "completion", "fairness", "events")


class Overview(ApiView):
    """The cluster at a glance."""

    rules = {"GET": READ}
    query = {
        "GET": (
            parameters.choices("only", "Only these parts; all when absent.", PARTS),
            parameters.number("window_s", "Seconds that the series goes back.", least=10, most=31 * DAY_S, default=900),
            parameters.integer("points", "Most points of the series.", least=2, most=1_000, default=300),
            parameters.number(
                "completed_within_s",
                "Seconds that completion times and fairness go back.",
                least=10,
                most=31 * DAY_S,
                default=DAY_S,
            ),
        )
    }

    @extend_schema(operation_id="overview", summary="Read the overview", responses={200: OverviewDocument})
    def get(self, request: Request) -> Response:
        """Return one picture: the cluster, its series, your queues, the GPUs, completion times, fairness, news.

        What you may not see is merged into "other queues" and "another queue". `only` gives some of it, and sooner.
        """
        user, p, at = request.user, self.params, live_ports().clock.now()
        since, completed_since = (at - timedelta(seconds=p[name]) for name in ("window_s", "completed_within_s"))
        parts: dict[str, Callable[[], object]] = {
            "cluster": lambda: cluster_now(at),
            "series": lambda: cluster_series(since, at, p["points"]),
            "queues": lambda: [with_text_id(row) for row in queue_shares(user)],
            "servers": lambda: gpu_map(user),
            "completion": lambda: jct_summary(user, completed_since),
            "fairness": lambda: fairness(user, at, since=completed_since),
            "events": lambda: [with_text_id(row) for row in feed(user, FEED_ROWS)],
        }
        return Response({name: parts[name]() for name in p["only"] or PARTS})


class Alerts(ApiView):
    """What needs an admin."""

    rules = {"GET": ADMIN}

    @extend_schema(operation_id="alert_list", summary="List alerts", responses={200: AlertList})
    def get(self, request: Request) -> Response:
        """Return what needs an admin now, most urgent first; an alert leaves when its cause is gone."""
        return Response(whole_list(alerts(request.user, live_ports().clock.now())))


class NextFree(ApiView):
    """When servers are free."""

    rules = {"GET": READ}

    @extend_schema(operation_id="next_free_list", summary="List when servers are free", responses={200: NextFreeList})
    def get(self, request: Request) -> Response:
        """Return the servers that take jobs, by when the last job on each ends; unknown ends come last."""
        return Response(whole_list(next_free(request.user, live_ports().clock.now())))


class Events(ApiView):
    """What happened."""

    rules = {"GET": READ}
    query = {"GET": (parameters.integer("limit", "Most events.", least=1, most=500, default=50),)}

    @extend_schema(operation_id="event_list", summary="Read the feed", responses={200: EventList})
    def get(self, request: Request) -> Response:
        """Return the newest events that you may see, newest first."""
        return Response(whole_list([with_text_id(row) for row in feed(request.user, self.params["limit"])]))


class Me(ApiView):
    """Who you are here."""

    rules = {"GET": SIGNED_IN}

    @extend_schema(operation_id="me", summary="Read who you are", responses={200: MeDocument})
    def get(self, request: Request) -> Response:
        """Return your name, your queues with your roles, and what the token of this request may be used for."""
        user, token = signed_in(request), token_of(request)
        body: MeRow = {
            "id": str(user.pk),
            "username": user.get_username(),
            "is_admin": user.is_superuser,
            "queues": [{"name": row["name"], "role": row["role"]} for row in queue_list(user)],
            "scopes": None if token is None else token.scopes,
            "token_expires_at": None if token is None else iso(token.expires_at),
        }
        return Response(body)
