"""Answers other than JSON: plain text, CSV and server-sent events."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rest_framework.renderers import BaseRenderer


class PlainText(BaseRenderer):
    """``text/plain``: the ``text`` of an answer as it is."""

    media_type = "text/plain"
    format = "txt"
    charset = "utf-8"

    def render(
        self, data: Any, accepted_media_type: str | None = None, renderer_context: Mapping[str, Any] | None = None
    ) -> bytes:
        """Return the text of the answer."""
        return str(data["text"]).encode("utf-8", errors="replace")


class Csv(BaseRenderer):
    """``text/csv``: the ``head`` and the ``rows`` of an answer; text that a spreadsheet would compute is quoted."""

    media_type = "text/csv"
    format = "csv"
    charset = "utf-8"

    def render(
        self, data: Any, accepted_media_type: str | None = None, renderer_context: Mapping[str, Any] | None = None
    ) -> bytes:
        """Return the rows of the answer."""
        return csv_text(data["head"], data["rows"]).encode("utf-8")


def csv_text(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table as CSV; a cell that begins like a formula gets an apostrophe, since names come from users."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(head)
    for row in rows:
        writer.writerow([f"'{cell}" if isinstance(cell, str) and cell[:1] in _FORMULA else cell for cell in row])
    return out.getvalue()


_FORMULA = frozenset("=+-@\t\r")


class EventStream(BaseRenderer):
    """``text/event-stream``: named so that the content type is negotiated; the view streams by itself."""

    media_type = "text/event-stream"
    format = "sse"

    def render(
        self, data: Any, accepted_media_type: str | None = None, renderer_context: Mapping[str, Any] | None = None
    ) -> bytes:
        """Return nothing: a stream is never rendered at once."""
        raise NotImplementedError("a stream is not rendered at once")
