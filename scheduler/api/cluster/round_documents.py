"""Documents of rounds and their decisions in the OpenAPI document. Nothing here runs in a request."""

from scheduler.api.http.documents import Numbers, document_of, page_of
from scheduler.selectors.cluster.rows import (
    GrantedSeat,
    GrantRow,
    OrderRow,
    PreemptionRow,
    RoundDetailRow,
    RoundRow,
    TrialRow,
    WaitingRow,
)

PlaceDocument = document_of(GrantedSeat, "PlaceDocument")
RoundRowDocument = document_of(RoundRow)
RoundPage = page_of(RoundRowDocument, "RoundPage", "A page of rounds.")
RoundDocument = document_of(
    RoundDetailRow,
    "RoundDocument",
    grants=document_of(GrantRow, "GrantDocument", seats=PlaceDocument),
    preemptions=document_of(PreemptionRow, "PreemptionDocument"),
    waiting=document_of(WaitingRow, "WaitingDocument"),
    order=document_of(OrderRow, "OrderDocument"),
    trials=document_of(TrialRow, "TrialDocument", rates_before=Numbers, rates_after=Numbers),
)
