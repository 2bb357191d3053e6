"""``/profiles``: how kinds of jobs react to cores, memory and GPUs, and having one measured again."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from scheduler.api.http.idempotency import once
from scheduler.api.http.pagination import whole_list
from scheduler.api.http.permissions import ADMIN, READ
from scheduler.api.http.view import ApiView
from scheduler.api.jobs.profile_documents import ProfileDocument, ProfilePage
from scheduler.ports import live_ports
from scheduler.selectors.jobs.profiles import profile_detail, profile_list
from scheduler.services.jobs.profiles import profile_measure_again


class Profiles(ApiView):
    """All profiles."""

    rules = {"GET": READ}

    @extend_schema(operation_id="profile_list", summary="List profiles", responses={200: ProfilePage})
    def get(self, request: Request) -> Response:
        """List what is known of kinds of jobs, as far as you see a job of the kind."""
        return Response(whole_list(profile_list(request.user)))


class ProfileDetail(ApiView):
    """One profile."""

    rules = {"GET": READ}

    @extend_schema(operation_id="profile_read", summary="Read a profile", responses={200: ProfileDocument})
    def get(self, request: Request, fingerprint: str) -> Response:
        """Return one profile with its curves, its cost and its age."""
        return Response(profile_detail(request.user, fingerprint))


class ProfileMeasure(ApiView):
    """Have a profile measured again."""

    rules = {"POST": ADMIN}
    repeatable = frozenset({"POST"})

    @extend_schema(
        operation_id="profile_measure",
        summary="Measure a profile again",
        request=None,
        responses={200: ProfileDocument},
    )
    def post(self, request: Request, fingerprint: str) -> Response:
        """Have the next attempt of this kind measured anew; it trains on meanwhile."""

        def make() -> tuple[int, Any, str]:
            at = live_ports().clock.now()
            profile_measure_again(actor=request.user, fingerprint=fingerprint, at=at)
            return 200, profile_detail(request.user, fingerprint), ""

        return once(request, None, make)
