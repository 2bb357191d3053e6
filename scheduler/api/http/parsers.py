"""Request bodies: JSON and YAML of bounded size, and streams.

Refuses what is too large or malformed; the spec and the serializers check the content.
"""

import io
import json
import math
import re
from collections.abc import Mapping
from typing import IO, Any

from rest_framework.exceptions import ParseError
from rest_framework.parsers import BaseParser
from rest_framework.request import Request

from scheduler.api.http.errors import BodyTooLarge
from scheduler.services.jobs.spec_text import spec_from_text

MOST_BODY_BYTES = 2 * 1024 * 1024
HALF = re.compile(rb"\\u[dD][89a-fA-F]")  # an escape that stands for half of a character
TOO_LARGE = f"The body may have at most {MOST_BODY_BYTES // 1024} KiB."


def refuse_large_body(request: Request, most_bytes: int) -> None:
    """Raise BodyTooLarge by the announced length, before anything is read."""
    announced = request.headers.get("Content-Length", "")
    if announced.isdigit() and int(announced) > most_bytes:
        raise BodyTooLarge(f"The body may have at most {most_bytes // 1024} KiB.")


def _read(stream: IO[bytes]) -> bytes:
    body = stream.read(MOST_BODY_BYTES + 1)
    if len(body) > MOST_BODY_BYTES:
        raise BodyTooLarge(TOO_LARGE)
    return body


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is too large a number")
    return value


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is not JSON")


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:  # JSON values
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is given twice in one object")
    return found


def json_from_text(body: bytes) -> object:
    """Return the data in JSON text. Raises ValueError: not JSON in UTF-8, a key twice, a number that is not finite."""
    try:
        data: object = json.loads(
            body.decode("utf-8"), parse_float=_finite, parse_constant=_no_constant, object_pairs_hook=_each_key_once
        )
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if HALF.search(body) and _has_half_a_character(data):
        raise ValueError("a text in it has half of a character")
    return data


def _has_half_a_character(data: object) -> bool:
    """Return whether a text in JSON data cannot be written: no database takes it and no answer can repeat it."""
    try:
        json.dumps(data, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False


class JsonBody(BaseParser):
    """``application/json``."""

    media_type = "application/json"

    def parse(  # type: ignore[override]  # a body may hold any JSON value, not only what DRF's forms can
        self, stream: IO[bytes], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> object:
        """Return the data; an empty body is an empty object."""
        body = _read(stream)
        if not body.strip():
            return {}
        try:
            return json_from_text(body)
        except ValueError as error:
            raise ParseError(f"The body is not JSON as it must be: {error}.") from None


class RawBody(BaseParser):
    """``application/octet-stream``: the bytes themselves, which are read piece by piece."""

    media_type = "application/octet-stream"

    def parse(  # type: ignore[override]  # a body is a stream here
        self, stream: IO[bytes], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> IO[bytes]:
        """Return the stream."""
        return stream


def body_stream(request: Request) -> IO[bytes]:
    """Return the stream of ``RawBody``; an empty one for a request without a body, of which nothing is parsed."""
    found: Any = request.data
    return found if hasattr(found, "read") else io.BytesIO()


class YamlBody(BaseParser):
    """``application/yaml``: the same data as JSON, spelled for people."""

    media_type = "application/yaml"

    def parse(  # type: ignore[override]  # a body may hold any JSON value, not only what DRF's forms can
        self, stream: IO[bytes], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> object:
        """Return the data. Raises SpecInvalid."""
        return spec_from_text(_read(stream))
