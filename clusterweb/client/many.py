"""Submits many jobs by few requests: splits a text into specs, and knows at each moment which are accepted.

The server stores the jobs of one request all or not at all; what has one key it does once, so that a submit that broke
off can be sent again.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from clusterweb.client.errors import CommandError, ServerRefused
from clusterweb.client.rest import Rest
from clusterweb.client.rows import SubmittedJob

MOST_JOBS = 500  # that REST takes at once
KEY_REUSED = "idempotency_key_reused"  # code of the answer that the key stored something else before
MOST_BYTES = 1_900_000  # of one body, below the 2 MiB that REST takes
# In YAML a marker at the begin of a line always ends a document, also within a text.
_MARKER = re.compile(rb"^(---(?=[ \t\r\n]|$)|\.\.\.(?=[ \t\r]*$))", re.MULTILINE)
_OF_JOB = re.compile(r"/specs/(\d+)(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecError:
    """What is wrong with one spec, or with a request as a whole.

    Attributes:
        spec: Its position in what was given, 1 for the first; None where the server names none.
        pointer: The field in it.
    """

    spec: int | None
    pointer: str
    detail: str


@dataclass(slots=True, kw_only=True)
class Progress:
    """How far a submit of many is.

    Attributes:
        jobs: Those that are stored, in their order.
        accepted: So many specs from the first on are stored.
        sent: So many specs from the first on were in a request; those after ``accepted`` were refused or are not known.
        is_unknown: The last request got no answer: its jobs may be stored.
        is_reused: The key of the last request stored other specs before; it stored nothing now.
        problem: Why it ended before the last spec; empty when it did not.
    """

    jobs: list[SubmittedJob] = field(default_factory=list)
    accepted: int = 0
    sent: int = 0
    is_unknown: bool = False
    is_reused: bool = False
    problem: str = ""
    errors: list[SpecError] = field(default_factory=list)


def split_specs(text: bytes) -> list[bytes]:
    """Return the specs in a text: YAML documents, JSON objects a line each, or a JSON list; the text where none is."""
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) > 1 and all(_is_object(line) for line in lines):
        return lines
    if text.lstrip().startswith(b"["):
        try:
            return [json.dumps(one).encode() for one in json.loads(text)] or [text]
        except ValueError:
            return [text]  # the server says what is wrong with it
    if text.lstrip().startswith(b"{"):
        return [text]
    return _documents(text) or [text]


def submit_many(client: Rest, specs: Sequence[bytes], *, key: str, so_far: Progress | None = None) -> Progress:
    """Submit specs in their order, in as few requests as REST takes, up to the first that is refused.

    Args:
        client: The account.
        specs: YAML or JSON, one job each.
        key: The same for a submit that is repeated: what it stored within a day is not stored again.
        so_far: Written to from request to request: it is there when an exception, as of Ctrl-C, ends this.
    """
    so_far = Progress() if so_far is None else so_far
    for start, end in requests_of(specs):
        body = json.dumps({"specs": [spec.decode(errors="replace") for spec in specs[start:end]]}).encode()
        so_far.sent = end
        try:
            jobs = _jobs_of(client.post("jobs/bulk", body, key=f"{key}-{start}"))
        except ServerRefused as error:
            so_far.problem, so_far.errors = error.detail, [_placed(one, start) for one in error.errors]
            so_far.is_unknown = error.status >= 500 or error.code == "first_still_runs"
            so_far.is_reused = error.code == KEY_REUSED
            return so_far
        except CommandError as error:
            so_far.problem, so_far.is_unknown = str(error), True
            return so_far
        so_far.jobs += jobs
        so_far.accepted = end
    return so_far


def requests_of(specs: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    """Yield begin and end of the specs of each request."""
    start = size = 0
    for place, spec in enumerate(specs):
        own = len(json.dumps(spec.decode(errors="replace"))) + 2
        if place > start and (place - start == MOST_JOBS or size + own > MOST_BYTES):
            yield start, place
            start, size = place, 0
        size += own
    yield start, len(specs)


def _jobs_of(answer: Any) -> list[SubmittedJob]:  # what json.loads gives
    """Return the jobs of an answer. Raises CommandError: it is not one of Clusterweb."""
    jobs = answer.get("results") if isinstance(answer, dict) else None
    if not isinstance(jobs, list):
        raise CommandError("The answer has no jobs in it. Does a proxy stand before Clusterweb?")
    return jobs


def _placed(error: Mapping[str, str], start: int) -> SpecError:
    """Return an error of a request with the position in all that was given."""
    pointer, detail = error.get("pointer", ""), error.get("detail", "")
    if match := _OF_JOB.fullmatch(pointer):
        return SpecError(spec=start + int(match[1]) + 1, pointer=match[2] or "/", detail=detail)
    return SpecError(spec=None, pointer=pointer or "/", detail=detail)


def _is_object(line: bytes) -> bool:
    if not line.lstrip().startswith(b"{"):
        return False
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _documents(text: bytes) -> list[bytes]:
    """Return the YAML documents that hold more than comments; one by itself keeps the numbers of its lines."""
    found, begin, opened_by = [], 0, b"..."
    for match in [*_MARKER.finditer(text), None]:
        end = len(text) if match is None else match.start()
        if _says_something(text[begin:end], may_direct=opened_by != b"---"):
            found.append((begin, end))
        if match is not None:
            begin, opened_by = match.end(), match[1]
    if len(found) == 1:
        [(begin, end)] = found
        return [b"\n" * text.count(b"\n", 0, begin) + text[begin:end]]
    return [text[begin:end] for begin, end in found]


def _says_something(part: bytes, *, may_direct: bool) -> bool:
    """Return whether a part holds more than comments and, where it may, directives of YAML such as ``%YAML 1.2``."""
    lines = [line for line in part.splitlines() if line.strip() and not line.lstrip().startswith(b"#")]
    return not all(may_direct and line.startswith(b"%") for line in lines)
