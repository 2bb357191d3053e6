"""What stands against a quota because the quotas below one queue would exceed its own, as one sentence.

Whether it does is decided by the rule of Save, for the preview too.
"""

from collections.abc import Mapping, Sequence

from frontend.components.devices import DeviceWord
from frontend.components.formats import joined, number
from frontend.pages.queues.requests import is_gpus
from scheduler.models import Queue
from scheduler.selectors.queues.rows import SiblingRow
from scheduler.services.queues.quotas import Quota, SiblingQuota, given_beside, largest_holders, quota_problems


class SiblingField(SiblingRow):
    """A queue beside this one with the quota to show in its field."""

    value: int | str


def quota_left(queue: Queue) -> int | None:
    """Return what could be saved while the queues beside it keep theirs; None where no queue above sets a limit."""
    if queue.parent is None:
        return None
    return max(0, queue.parent.quota_gpus - given_beside(queue.parent, besides=queue))


def quota_missing(queue: Queue, typed_gpus: str, siblings: Sequence[SiblingField], device: DeviceWord) -> str:
    """Return why a quota could not be saved and what to do; empty where it could, and for what is no number."""
    if not is_gpus(typed_gpus) or not all(is_gpus(str(row["value"])) for row in siblings):
        return ""
    kept = {row["id"]: int(row["value"]) for row in siblings}
    if int(typed_gpus) == queue.quota_gpus and all(kept[row["id"]] == row["quota_gpus"] for row in siblings):
        return ""  # nothing would be changed
    moved = Queue.objects.filter(pk__in=[row["id"] for row in siblings if kept[row["id"]] != row["quota_gpus"]])
    moves = [SiblingQuota(queue=one, quota_gpus=kept[one.pk]) for one in moved]
    after = Quota(quota_gpus=int(typed_gpus), max_gpus=None, weight=1.0, may_borrow=True)
    sums = [error for error in quota_problems(queue, after, moves, may_save=True).errors if error.code == "sum"]
    if queue.parent is not None and any(error.pointer == "/moves" for error in sums):
        return _lower(queue.parent, int(typed_gpus), {row["name"]: kept[row["id"]] for row in siblings}, device)
    return device.said(" ".join(error.detail[:1].upper() + error.detail[1:] for error in sums))


def _lower(above: Queue, quota_gpus: int, kept: Mapping[str, int], device: DeviceWord) -> str:
    """Return how many GPUs the queues beside it would have to give up beyond what they do."""
    short = quota_gpus + sum(kept.values()) - above.quota_gpus
    largest, more = largest_holders(kept)
    named = [f"{name}{' has' if name == largest[0] else ''} {number(kept[name])}" for name in largest]
    held = joined([*named, f"{more} more the rest"] if more else named)
    are = "is" if short == 1 else "are"
    of = f"of the {number(above.quota_gpus)} of {above.name}"
    return f"{device.counted(short)} {are} missing: {held} {of}. Lower theirs under Taken from."
