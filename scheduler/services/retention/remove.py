"""One pass of the clean-up: chunk after chunk, until nothing is too old or the pass has taken its share of time."""

import logging
from collections import Counter
from collections.abc import Callable
from datetime import datetime

from scheduler.services.code.collect import code_chunk_remove
from scheduler.services.retention.directories import directories_chunk_remove
from scheduler.services.retention.hours import hours_chunk_merge
from scheduler.services.retention.jobs import jobs_chunk_remove
from scheduler.services.retention.policy import Kept, policy
from scheduler.services.retention.rows import chunk_remove

log = logging.getLogger(__name__)


def _code_chunk_remove(kept: Kept, *, at: datetime) -> int:
    return code_chunk_remove(kept.old(at), at=at)


OWN_WAY = {
    "jobs": jobs_chunk_remove,
    "directories": directories_chunk_remove,
    "usage_hours": hours_chunk_merge,
    "code": _code_chunk_remove,
}


def old_rows_remove(*, at: datetime, go_on: Callable[[], bool]) -> dict[str, int]:
    """Remove what is older than the policy allows, and return how many rows of each kind went.

    Each kind is looked at without a lock first: on SQLite a transaction holds up all that write from its beginning on.

    Args:
        go_on: Asked before each chunk; False ends the pass, and the next one goes on.
    """
    gone: Counter[str] = Counter()
    for kept in policy():
        remove = OWN_WAY.get(kept.name, chunk_remove)
        while go_on():
            rows = remove(kept, at=at)
            if not rows:
                break
            gone[kept.name] += rows
    if gone:
        log.info("old_rows_removed", extra=dict(gone))
    return dict(gone)
