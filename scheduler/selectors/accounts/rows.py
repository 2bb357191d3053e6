"""Rows of users, webhooks and the audit list as REST answers and pages read them.

The selectors of this folder make them. Times are ISO 8601 text in UTC.
"""

from datetime import datetime
from typing import Any, TypedDict

# What an event says of its change: the keys depend on the kind of the event.
Json = dict[str, Any]


class AuditRow(TypedDict):
    """One change that a person made, before and after."""

    id: int
    at: str
    who: str
    kind: str
    did: str
    job: str | None
    queue: str | None
    server: str | None
    before: object
    after: object
    why: str
    data: Json
    request_id: str


class UserQueue(TypedDict):
    """A role of a user in a queue."""

    name: str
    role: str


class UserRow(TypedDict):
    """One user."""

    id: str
    username: str
    email: str
    is_admin: bool
    is_active: bool
    last_signed_in_at: str | None
    joined_at: str
    queues: list[UserQueue]
    signs_in_by: list[str]
    live_tokens: int


class WebhookRow(TypedDict):
    """One webhook without its secret; ``queue`` is None for one of the whole cluster."""

    id: str
    name: str
    queue: str | None
    url: str
    notices: list[str]
    created_by: str
    created_at: str
    revoked_at: str | None


class DeliveryRow(TypedDict):
    """One message of a webhook."""

    id: str
    notice: str
    state: str
    tries: int
    status: int | None
    problem: str
    took_s: float | None
    created_at: str
    next_at: str | None
    ended_at: str | None
    body: str


class DeliveryCounts(TypedDict):
    """Messages of one webhook by state, and when the newest was delivered."""

    waiting: int
    delivered: int
    failed: int
    last_at: datetime | None
