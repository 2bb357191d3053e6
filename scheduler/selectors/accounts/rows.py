"""Rows of users, tokens, webhooks and the audit list: each field is named here once.

The selectors of this folder fill them; REST answers and pages read them, and the OpenAPI document is made of them.
"""

from datetime import datetime
from typing import Annotated, TypedDict

from scheduler.models.queue import Role
from scheduler.models.webhook import DeliveryState
from scheduler.selectors.accounts.notices import NOTICES, TEST
from scheduler.selectors.rows import Json, Moment, one_of


class AuditRow(TypedDict):
    """One action of a user."""

    id: int
    at: Moment
    who: Annotated[str, 'User name; "operator" for a command on the machine itself.']
    kind: Annotated[str, "What it was done to."]
    did: Annotated[str, "Short code of what was done."]
    job: Annotated[str | None, "Such as J-12."]
    job_name: str | None
    queue: str | None
    server: str | None
    before: Json | None  # a role is text
    after: Json | None
    why: Annotated[str, "As they wrote it."]
    data: Json
    request_id: Annotated[str, "Also in the X-Request-Id header of the answer, and in our logs."]


class KeptSecretRow(TypedDict):
    """A secret without its value."""

    name: Annotated[str, "As specs name it."]
    queue: Annotated[str | None, "Whose it is; null: your own."]
    created_at: Moment
    created_by: str
    changed_at: Annotated[Moment, "When its value was set or replaced last."]
    changed_by: str
    last_used_at: Annotated[Moment | None, "When a job that names it started last."]
    last_used_by: Annotated[str | None, "That job."]


class UserQueue(TypedDict):
    """A role in a queue, and in those below it."""

    name: Annotated[str, "Of the queue."]
    role: Annotated[str, one_of(Role)]


class UserRow(TypedDict):
    """A user."""

    id: str
    username: str
    email: str
    is_admin: bool
    is_active: bool
    last_signed_in_at: Moment | None
    joined_at: Moment
    queues: list[UserQueue]
    signs_in_by: Annotated[list[str], "Outside providers of sign-ins."]
    live_tokens: int


class QueueRole(TypedDict):
    """A queue of yours."""

    name: str
    role: Annotated[str, one_of(Role)]


class MeRow(TypedDict):
    """Who you are here."""

    id: str
    username: str
    is_admin: bool
    queues: list[QueueRole]
    scopes: Annotated[list[str] | None, "Of the token; null with a session, which may do all."]
    token_expires_at: Moment | None


class NewUserRow(UserRow):
    """A user with a password, which is shown only here."""

    password: Annotated[str, "Not kept; the user should change it."]


class WebhookRow(TypedDict):
    """A webhook without its secret."""

    id: str
    name: str
    queue: Annotated[str | None, "null: of the whole cluster."]
    url: str
    notices: list[Annotated[str, one_of(NOTICES)]]
    created_by: str
    created_at: Moment
    revoked_at: Moment | None


class NewWebhookRow(WebhookRow):
    """A webhook with its secret, which is shown only here."""

    secret: Annotated[str, "Key of the HMAC-SHA-256 over `<X-Timestamp>.<body>` in X-Signature-256."]


class SecretRow(TypedDict):
    """Another secret."""

    secret: Annotated[str, "The old one signs nothing any more."]


class DeliveryRow(TypedDict):
    """One message and what became of it."""

    id: Annotated[str, "Also in X-Delivery: a message may come twice."]
    notice: Annotated[str, one_of([*NOTICES, TEST])]
    state: Annotated[str, one_of(DeliveryState)]
    tries: int
    status: Annotated[int | None, "HTTP status of the newest answer."]
    problem: Annotated[str, "Why the newest try failed."]
    took_s: float | None
    created_at: Moment
    next_at: Moment | None
    ended_at: Moment | None
    body: Annotated[str, "As it is sent."]


class DeliveryCounts(TypedDict):
    """Messages of one webhook by state, and when the newest was delivered."""

    waiting: int
    delivered: int
    failed: int
    last_at: datetime | None
