"""What holds jobs back before a round orders them: the limit of their array, and jobs that have to end first."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypedDict


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayLimit:
    """An array of which only so many jobs are at work at once: a job is from its first start until its end.

    Attributes:
        number: Of the array.
        most: Jobs at work at once.
        outside: Jobs at work that the snapshot does not hold: they stop, or pause after a failure.
        jobs: Ids of its jobs in the snapshot.
    """

    number: int
    most: int
    outside: int = 0
    jobs: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class After:
    """Jobs that start when others have ended as they ask, by their ids.

    Attributes:
        jobs: Those that wait.
        on: Those that have not ended, one at least; not all need be in the snapshot.
    """

    jobs: tuple[int, ...]
    on: tuple[int, ...]


class Holds(TypedDict):
    """The fields of a snapshot that hold jobs back."""

    arrays: tuple[ArrayLimit, ...]
    after: tuple[After, ...]


def holds_json(arrays: Sequence[ArrayLimit], after: Sequence[After]) -> dict[str, Any]:
    """Return what holds jobs back as plain JSON data."""
    return {"arrays": [asdict(one) for one in arrays], "after": [asdict(one) for one in after]}


def holds_from(data: Mapping[str, Any]) -> Holds:
    """Return what ``holds_json`` wrote; nothing where it was kept by a release before."""
    return {
        "arrays": tuple(ArrayLimit(**one | {"jobs": tuple(one["jobs"])}) for one in data.get("arrays", ())),
        "after": tuple(After(jobs=tuple(one["jobs"]), on=tuple(one["on"])) for one in data.get("after", ())),
    }
