"""ETag and If-Match: a write that would overwrite another user's change is refused."""

from collections.abc import Iterator
from contextlib import contextmanager

from rest_framework.request import Request

from scheduler.api.http.errors import PreconditionFailed, PreconditionRequired
from scheduler.core.model.errors import Conflict

NEVER = 0  # versions begin with 1


def etag(version: int) -> str:
    """Return the ETag of an object in this version."""
    return f'"{version}"'


def expected_version(request: Request, *, present: int) -> int:
    """Return the version that the caller saw, or NEVER when it is not one of ours; the service compares.

    Raises:
        PreconditionRequired: There is no If-Match.
    """
    header = request.headers.get("If-Match", "").strip()
    if not header:
        raise PreconditionRequired
    # A list means: any of these. A weak tag never matches.
    seen = {tag.strip() for tag in header.split(",")}
    return present if header == "*" or etag(present) in seen else NEVER


@contextmanager
def guarded() -> Iterator[None]:
    """Answer 412 when the service finds another version than the caller saw."""
    try:
        yield
    except Conflict as error:
        raise PreconditionFailed(f"{error} Read it again and send the new ETag in If-Match.") from None
