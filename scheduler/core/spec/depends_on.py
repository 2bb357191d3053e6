"""What a job waits for: other jobs, or whole arrays, that have ended in a certain way."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from scheduler.core.model.lifecycle import TERMINAL, JobState
from scheduler.core.spec import limits as limit
from scheduler.core.spec.reading import FieldReader, quoted

_SUBJECT = re.compile(r"(?:(?P<kind>[JA])-)?(?P<number>[0-9]{1,15})", re.IGNORECASE)
_ID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}", re.IGNORECASE)
RIGHT = "a job by its number or id as its submit answered it, such as J-12, or an array such as A-100"
EXAMPLE = "[J-12: completed]"


class Until(StrEnum):
    """How the job or array that is waited for has to end; an array has ended once all its jobs have."""

    COMPLETED = "completed"  # all of it completed
    FAILED = "failed"  # it, or one of its jobs, failed or was cancelled
    ENDED = "ended"  # in any way


UNTILS = tuple(until.value for until in Until)


class Verdict(StrEnum):
    """What has become of a dependency."""

    MET = "met"
    OPEN = "open"
    NEVER = "never"  # what it waits for has ended otherwise


@dataclass(frozen=True, slots=True)
class Dependency:
    """One thing that a job waits for: the job ``J-<number>``, or the array ``A-<number>``.

    A job that was named by its id has it in ``job_id``, and the number 0 until ``services`` have looked it up.
    """

    number: int
    is_array: bool
    until: Until
    job_id: str = ""

    @property
    def subject(self) -> str:
        """Return the name of the job or array that is waited for."""
        return self.job_id or f"{'A' if self.is_array else 'J'}-{self.number}"

    def verdict(self, states: Collection[JobState]) -> Verdict:
        """Return what has become of it.

        Args:
            states: Of the job, or of all jobs of the array; empty where the other is gone: it had ended long before.
        """
        completed = all(state is JobState.COMPLETED for state in states)
        if self.until is Until.COMPLETED and any(state in TERMINAL - {JobState.COMPLETED} for state in states):
            return Verdict.NEVER  # the rest of an array cannot change that
        if not all(state in TERMINAL for state in states):
            return Verdict.OPEN
        if not states:
            return Verdict.MET if self.until is Until.ENDED else Verdict.NEVER
        is_met = self.until is Until.ENDED or completed is (self.until is Until.COMPLETED)
        return Verdict.MET if is_met else Verdict.NEVER


def dependencies_text(dependencies: Iterable[Dependency]) -> str:
    """Return dependencies as a column keeps them: ``J-1:completed A-3:ended``."""
    return " ".join(f"{one.subject}:{one.until}" for one in dependencies)


def dependencies_of(text: str) -> tuple[Dependency, ...]:
    """Return what ``dependencies_text`` wrote."""
    words = (word.partition(":") for word in text.split())
    return tuple(
        Dependency(number=int(subject[2:]), is_array=subject[0] == "A", until=Until(until))
        for subject, _, until in words
    )


def read_depends_on(reader: FieldReader, value: object) -> tuple[Dependency, ...]:
    """Return what the job waits for, each once, in the order in which it was written."""
    if value is None:
        return ()
    items = [value] if isinstance(value, Mapping | str) else value
    if not isinstance(items, list | tuple):
        reader.bad("/depends_on", "type", f"depends_on must be a list such as {EXAMPLE}, not {quoted(value)}.")
        return ()
    pairs = [(f"/depends_on/{at}", subject, until) for at, item in enumerate(items) for subject, until in _pairs(item)]
    if len(pairs) > limit.DEPENDENCIES:
        detail = (
            f"depends_on may name at most {limit.DEPENDENCIES}. It names {len(pairs)}. A whole array counts as one."
        )
        reader.bad("/depends_on", "length", detail)
        return ()
    found = [_read(reader, *pair) for pair in pairs]
    return tuple(dict.fromkeys(one for one in found if one is not None))


def _pairs(item: object) -> list[tuple[object, object]]:
    """Return the entries of one item: ``J-1: completed``, also in quotes, or ``J-1``, which means that it completed."""
    if isinstance(item, Mapping):
        return list(item.items())
    if isinstance(item, str) and ":" in item:
        subject, _, until = item.partition(":")
        return [(subject.strip(), until.strip())]
    return [(item, Until.COMPLETED.value)]


def _read(reader: FieldReader, pointer: str, subject: object, until: object) -> Dependency | None:
    # Numbers as REST answers them, and as YAML reads a bare 12.
    text = str(subject) if isinstance(subject, str | int) and not isinstance(subject, bool) else ""
    found, is_id = _SUBJECT.fullmatch(text), _ID.fullmatch(text) is not None
    if not is_id and (found is None or not int(found["number"])):
        reader.bad(pointer, "syntax", f"depends_on must name {RIGHT}, not {quoted(subject)}.")
        return None
    if not isinstance(until, str) or until not in UNTILS:
        reader.bad(pointer, "choice", f"depends_on waits until a job is {', '.join(UNTILS)}, not {quoted(until)}.")
        return None
    if found is None:
        return Dependency(number=0, is_array=False, until=Until(until), job_id=text.upper())
    return Dependency(number=int(found["number"]), is_array=found["kind"] in ("A", "a"), until=Until(until))


def depends_on_schema() -> dict[str, Any]:
    """Return the part of the JSON Schema."""
    subject = "^(([JAja]-)?[0-9]{1,15}|[0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{26})"
    return {
        "description": (
            "Jobs (by number, J-12, or id) and arrays (A-100) that have to end before it starts: completed, failed "
            "(or cancelled), or ended in any way. Where one ends otherwise, the job is cancelled with the cause "
            "dependency."
        ),
        "type": "array",
        "maxItems": limit.DEPENDENCIES,
        "items": {
            "anyOf": [
                {
                    "type": "object",
                    "propertyNames": {"pattern": f"{subject}$"},
                    "additionalProperties": {"enum": [*UNTILS]},
                },
                {"type": "integer", "minimum": 1},
                {"type": "string", "pattern": f"{subject}( *: *({'|'.join(UNTILS)}))?$"},
            ]
        },
        "examples": [[{"J-12": "completed"}]],
        "default": [],
    }
