"""``/whatif``: scenarios with their progress and results."""

from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response

from scheduler.api.http.bodies import read_body
from scheduler.api.http.idempotency import once
from scheduler.api.http.pagination import NEWEST_FIRST, PAGE
from scheduler.api.http.permissions import WHAT_IF
from scheduler.api.http.view import ApiView
from scheduler.api.whatif.documents import (
    SCENARIO_EXAMPLES,
    RunDocument,
    ScenarioBody,
    ScenarioDocument,
    ScenarioPage,
)
from scheduler.core.model.errors import NotAllowed
from scheduler.ports import live_ports
from scheduler.selectors import rows
from scheduler.selectors.visibility import may_ask_what_if, require_scenario, scenarios_visible
from scheduler.selectors.whatif import run_detail, scenario_detail, scenario_row
from scheduler.services.whatif.scenarios import scenario_cancel, scenario_create, scenario_delete


def refuse_others(request: Request) -> None:
    """Raise NotAllowed unless the caller may ask what-if questions."""
    if not may_ask_what_if(request.user):
        raise NotAllowed("Only admins and leads of a queue may ask what-if questions.")


class Scenarios(ApiView):
    """What-if scenarios."""

    rules = {"GET": WHAT_IF, "POST": WHAT_IF}
    query = {"GET": PAGE}
    repeatable = frozenset({"POST"})

    @extend_schema(operation_id="scenario_list", summary="List what-if scenarios", responses={200: ScenarioPage})
    def get(self, request: Request) -> Response:
        """List scenarios, newest first: admins all, leads their own."""
        refuse_others(request)
        return self.page(request, scenarios_visible(request.user), NEWEST_FIRST, scenario_row)

    @extend_schema(
        operation_id="scenario_create",
        summary="Ask a what-if question",
        request=ScenarioBody,
        responses={202: OpenApiResponse(ScenarioDocument, description="Kept; a worker begins with it.")},
        examples=SCENARIO_EXAMPLES,
    )
    def post(self, request: Request) -> Response:
        """Ask what would happen. Read the scenario at `Location` until its state is no longer queued or running.

        Admins ask about the cluster, now or in the past; leads about traces and generated workloads.
        """
        body = read_body(request, ScenarioBody)

        def create() -> tuple[int, rows.ScenarioDetail, str]:
            at = live_ports().clock.now()
            scenario = scenario_create(actor=request.user, body=body, at=at)
            return 202, scenario_detail(scenario, at), f"/api/v1/whatif/{scenario.pk}"

        return once(request, body, create)


class ScenarioDetail(ApiView):
    """One scenario."""

    rules = {"GET": WHAT_IF, "DELETE": WHAT_IF}

    @extend_schema(operation_id="scenario_read", summary="Read a scenario", responses={200: ScenarioDocument})
    def get(self, request: Request, scenario: str) -> Response:
        """Return how far a scenario is and what it found: every metric with its uncertainty and its winner."""
        found = require_scenario(request.user, scenario)
        return Response(scenario_detail(found, live_ports().clock.now()))

    @extend_schema(
        operation_id="scenario_delete",
        summary="Delete a scenario",
        responses={204: OpenApiResponse(description="It is forgotten."), 409: OpenApiResponse(description="It runs.")},
    )
    def delete(self, request: Request, scenario: str) -> Response:
        """Forget a scenario that has ended."""
        found = require_scenario(request.user, scenario)
        scenario_delete(actor=request.user, scenario=found, at=live_ports().clock.now())
        return Response(status=204)


class ScenarioCancel(ApiView):
    """Stopping a scenario."""

    rules = {"POST": WHAT_IF}
    repeatable = frozenset({"POST"})

    @extend_schema(
        operation_id="scenario_cancel",
        summary="Cancel a scenario",
        request=None,
        responses={200: ScenarioDocument, 409: OpenApiResponse(description="It has ended already.")},
    )
    def post(self, request: Request, scenario: str) -> Response:
        """Stop a scenario; what it found so far stays."""

        def cancel() -> tuple[int, rows.ScenarioDetail, str]:
            at = live_ports().clock.now()
            found = scenario_cancel(actor=request.user, scenario=require_scenario(request.user, scenario), at=at)
            return 200, scenario_detail(found, at), ""

        return once(request, request.data, cancel)


class ScenarioRun(ApiView):
    """One run of a scenario."""

    rules = {"GET": WHAT_IF}

    @extend_schema(operation_id="scenario_run_read", summary="Read a run", responses={200: RunDocument})
    def get(self, request: Request, scenario: str, variant: int, seed: int) -> Response:
        """Return the figures and curves of one variant with one seed."""
        row = run_detail(require_scenario(request.user, scenario), variant=variant, seed=seed)
        if row is None:
            raise NotFound(f"The scenario has no run of variant {variant} with seed {seed}.")
        return Response(row)
