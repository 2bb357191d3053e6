"""Answers that are no JSON: text for terminals and scrapers, events for followers."""

from collections.abc import Mapping
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


class EventStream(BaseRenderer):
    """``text/event-stream``: named so that the content type is negotiated; the view streams by itself."""

    media_type = "text/event-stream"
    format = "sse"

    def render(
        self, data: Any, accepted_media_type: str | None = None, renderer_context: Mapping[str, Any] | None = None
    ) -> bytes:
        """Return nothing: a stream is never rendered at once."""
        raise NotImplementedError("a stream is not rendered at once")
