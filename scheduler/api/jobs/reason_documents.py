"""Documents of why a job waits, and of what would become of it. Only ``ChangeBody`` runs in a request."""

from rest_framework import serializers

from scheduler.api.http.bodies import Body, WholeNumberField
from scheduler.api.http.documents import document_of
from scheduler.api.jobs.documents import SpecDocument
from scheduler.api.jobs.history_documents import GapDocument
from scheduler.selectors.jobs.reason_rows import (
    CheckRow,
    DryRun,
    EstimateError,
    EstimateRow,
    ExplanationWithChanges,
    JobAhead,
    JobPreview,
    PlannedSeatRow,
    PreemptedJob,
    SimulatedStart,
    UnblockRow,
)


class ChangeBody(Body):
    """What a waiting job asks for from now on; what is absent stays."""

    queue = serializers.CharField(required=False, max_length=120, help_text="A leaf queue.")
    gpus = WholeNumberField(required=False, min_value=1, max_value=1_000_000)
    min_gpus = WholeNumberField(required=False, min_value=1, max_value=1_000_000)
    max_servers = WholeNumberField(required=False, min_value=1, max_value=1_000_000)
    cpus = serializers.JSONField(required=False, help_text='Cores, or "auto".')
    memory = serializers.CharField(required=False, max_length=20, help_text='Such as "4GiB", or "auto".')


CheckDocument = document_of(CheckRow, "CheckDocument")
PreemptedDocument = document_of(PreemptedJob, "PreemptedDocument")
PreviewDocument = document_of(
    JobPreview,
    "PreviewDocument",
    placement=document_of(PlannedSeatRow, "PlannedSeatDocument"),
    preempts=PreemptedDocument,
    estimate=document_of(SimulatedStart, "LookedDocument"),
)
DryRunDocument = document_of(DryRun, "DryRunDocument", spec=SpecDocument, checks=CheckDocument, preview=PreviewDocument)
ExplainDocument = document_of(
    ExplanationWithChanges,
    "ExplainDocument",
    ahead=document_of(JobAhead, "AheadDocument"),
    checks=CheckDocument,
    held_back=GapDocument,
    estimate=document_of(EstimateRow, "EstimateDocument"),
    estimate_error=document_of(EstimateError, "EstimateErrorDocument"),
    unblock=document_of(UnblockRow, "UnblockDocument", change=ChangeBody, preempts=PreemptedDocument),
)
