"""Documents of queues, members, forecasts, usage and loans in the OpenAPI document. Nothing here runs in a request."""

from rest_framework import serializers

from scheduler.api.http.documents import document_of, page_of
from scheduler.selectors.queues.rows import (
    InheritedMemberRow,
    LoanReport,
    MemberRow,
    QueueDetailRow,
    QueueRow,
    UsageReport,
)
from scheduler.selectors.queues.taken import TakenReport, TakerRow
from scheduler.whatif.rows import ForecastReport

QueueRowDocument = document_of(QueueRow, id=serializers.CharField)
MemberDocument = document_of(MemberRow, "MemberDocument")
QueueDocument = document_of(
    QueueDetailRow,
    "QueueDocument",
    id=serializers.CharField,
    members=MemberDocument,
    inherited_members=document_of(InheritedMemberRow, "InheritedMemberDocument"),
)
QueuePage = page_of(QueueRowDocument, "QueuePage", "All queues that you may see.")
MembersDocument = page_of(MemberDocument, "MembersDocument", "All members of a queue itself.")
ForecastDocument = document_of(ForecastReport, "ForecastDocument")
UsageDocument = document_of(UsageReport, "UsageDocument")
LoansDocument = document_of(LoanReport, "LoansDocument")
Taker = document_of(TakerRow, "Taker")
TakenDocument = document_of(
    TakenReport, "TakenDocument", total=Taker, queues=Taker, people=Taker, jobs=Taker, losers=Taker
)
