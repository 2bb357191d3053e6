"""``/gpu-hours``: where the GPU-hours of the cluster went."""

from datetime import timedelta

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from scheduler.api.http import parameters
from scheduler.api.http.documents import Moments, Numbers, document_of
from scheduler.api.http.permissions import READ
from scheduler.api.http.view import ApiView
from scheduler.ports import live_ports
from scheduler.selectors.cluster.gpu_hours import gpu_hours
from scheduler.selectors.cluster.rows import GpuHoursReport

DAY_S = 86_400.0


class SeriesByKind(serializers.DictField):
    """A series for each kind."""

    child = Numbers()


GpuHoursDocument = document_of(GpuHoursReport, "GpuHoursDocument", at=Moments, kinds=SeriesByKind)


class GpuHours(ApiView):
    """Where the GPU-hours went."""

    rules = {"GET": READ}
    query = {
        "GET": (
            parameters.number("window_s", "Seconds back.", least=60, most=31 * DAY_S, default=DAY_S),
            parameters.integer("points", "Most parts.", least=2, most=500, default=48),
        )
    }

    @extend_schema(operation_id="gpu_hours", summary="Read GPU-hours by kind", responses={200: GpuHoursDocument})
    def get(self, request: Request) -> Response:
        """Return the GPU-hours that were useful, stalled, lost, idle, free and so on, in all and over time."""
        at = live_ports().clock.now()
        since = at - timedelta(seconds=self.params["window_s"])
        return Response(gpu_hours(request.user, since=since, until=at, points=self.params["points"]))
