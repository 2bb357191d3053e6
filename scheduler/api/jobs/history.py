"""``/jobs/{id}/...``: events, attempts, why the job waits, measured values, where it ran."""

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from scheduler.api.http import parameters
from scheduler.api.http.pagination import PAGE, Order, whole_list
from scheduler.api.http.permissions import READ
from scheduler.api.http.view import ApiView, with_text_id
from scheduler.api.jobs.history_documents import AttemptPage, BadItemPage, EventPage, PlacementDocument, SeriesDocument
from scheduler.api.jobs.reason_documents import ExplainDocument
from scheduler.ports import live_ports
from scheduler.selectors.jobs.datasets import job_bad_items
from scheduler.selectors.jobs.listing import attempt_row, event_row, job_events, job_explain, job_series, job_timeline
from scheduler.selectors.jobs.reason_rows import ExplanationWithChanges
from scheduler.selectors.visibility import require_job
from scheduler.whatif.one_job.unblock import job_unblockers, nothing_helps

OLDEST_FIRST = Order(name="number", column="number", tie="number")


class JobEvents(ApiView):
    """What happened to a job."""

    rules = {"GET": READ}
    query = {"GET": PAGE}

    @extend_schema(operation_id="job_events", summary="Read a job's events", responses={200: EventPage})
    def get(self, request: Request, job: str) -> Response:
        """List what happened to a job, oldest first."""
        rows = job_events(require_job(request.user, job))
        return self.page(request, rows, OLDEST_FIRST, lambda event: with_text_id(event_row(event)))


class JobAttempts(ApiView):
    """The runs of a job."""

    rules = {"GET": READ}
    query = {"GET": PAGE}

    @extend_schema(operation_id="job_attempts", summary="Read a job's attempts", responses={200: AttemptPage})
    def get(self, request: Request, job: str) -> Response:
        """List the runs of a job from launch to end, oldest first."""
        rows = require_job(request.user, job).attempts.prefetch_related("leases__server", "leases__gpus__gpu")
        return self.page(request, rows, OLDEST_FIRST, attempt_row)


class JobBadItems(ApiView):
    """Items of datasets that a job left out."""

    rules = {"GET": READ}

    @extend_schema(operation_id="job_bad_items", summary="Read a job's bad input", responses={200: BadItemPage})
    def get(self, request: Request, job: str) -> Response:
        """List the items that the job could not read or decode; other jobs that read the dataset skip them too."""
        return Response(whole_list(job_bad_items(request.user, job)))


class JobExplain(ApiView):
    """Why a job waits."""

    rules = {"GET": READ}
    names_devices = True

    @extend_schema(operation_id="job_explain", summary="Read why a job waits", responses={200: ExplainDocument})
    def get(self, request: Request, job: str) -> Response:
        """Return the binding constraint with its numbers, the jobs ahead, which checks pass and what would start it."""
        found, at = require_job(request.user, job), live_ports().clock.now()
        explain, ways = job_explain(request.user, found, at), job_unblockers(request.user, found, at)
        told = "" if ways else nothing_helps(request.user, found, explain)
        answer: ExplanationWithChanges = {**explain, "unblock": ways, "unblock_sentence": told}
        return Response(answer)


class JobSeries(ApiView):
    """What was measured of a job."""

    rules = {"GET": READ}
    query = {"GET": (parameters.instant("since", "Only values measured after this moment."),)}

    @extend_schema(operation_id="job_series", summary="Read a job's measurements", responses={200: SeriesDocument})
    def get(self, request: Request, job: str) -> Response:
        """Return loss, rate and use over time, as lists of one length."""
        return Response(job_series(require_job(request.user, job), self.params["since"]))


class JobPlacement(ApiView):
    """Where and when a job ran."""

    rules = {"GET": READ}

    @extend_schema(operation_id="job_placement", summary="Read where a job ran", responses={200: PlacementDocument})
    def get(self, request: Request, job: str) -> Response:
        """Return attempts and the gaps between them, oldest first, with the receipt of each preemption."""
        found = require_job(request.user, job)
        return Response(whole_list(job_timeline(found, live_ports().clock.now(), request.user)))
