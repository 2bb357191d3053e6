"""Masks the values of secrets in a stream of output, across the borders of what is read at once.

Masked are each value and each of its lines of eight bytes or more: as they are, percent-encoded, escaped as in JSON,
and in base64 at any offset. Other forms, such as a hash or a value spelled backwards, are not found.
"""

import base64
import json
import re
from collections.abc import Iterable

from agents.protocol.job_secret import JobSecret

# Shorter texts would be found by chance.
SHORTEST = 8


class Masker:
    """Replaces the secrets of one job by their names in brackets."""

    def __init__(self, secrets: Iterable[JobSecret] = ()) -> None:
        self._labels: dict[bytes, bytes] = {}
        for secret in secrets:
            for form in _forms(secret.value):
                self._labels.setdefault(form, f"[{secret.name}]".encode())
        self._forms = sorted(self._labels, key=lambda form: (-len(form), form))
        self._pattern = re.compile(b"|".join(map(re.escape, self._forms)))
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """Return output that may be shown; the end is held back while it may be the begin of a secret."""
        if not self._forms:
            return data
        data = self._held + data
        cut = self._cut(data)
        shown, at = [], 0
        if any(form in data for form in self._forms):
            for match in self._pattern.finditer(data):
                if match.start() >= cut:
                    break
                shown += [data[at : match.start()], self._labels[match[0]]]
                at = match.end()
        cut = max(cut, at)
        shown.append(data[at:cut])
        self._held = data[cut:]
        return b"".join(shown)

    def rest(self) -> bytes:
        """Return what is still held back; no more output follows."""
        held, self._held = self._held, b""
        return self.masked(held)

    def masked(self, data: bytes) -> bytes:
        """Return a whole text without secrets."""
        return self._pattern.sub(lambda match: self._labels[match[0]], data) if self._forms else data

    def _cut(self, data: bytes) -> int:
        """Return where the longest end of ``data`` begins that may be the begin of a secret."""
        cut = len(data)
        for form in self._forms:
            at = data.find(form[:1], max(0, len(data) - len(form) + 1), cut)
            while at >= 0:
                if form.startswith(data[at:]):
                    cut = at
                    break
                at = data.find(form[:1], at + 1, cut)
        return cut


def _forms(value: str) -> set[bytes]:
    """Return how a value may appear in output."""
    from urllib.parse import quote, quote_plus  # the supervisor of a job without secrets starts without it

    parts = {value, value.strip(), *(line.strip() for line in value.splitlines())}
    forms: set[bytes] = set()
    for part in parts:
        if len(part.encode()) < SHORTEST:
            continue
        texts = (part, quote(part, safe=""), quote(part), quote_plus(part), json.dumps(part)[1:-1])
        forms |= {text.encode() for text in texts} | {json.dumps(part, ensure_ascii=False)[1:-1].encode()}
        forms |= _in_base64(part.encode())
    return forms


def _in_base64(value: bytes) -> set[bytes]:
    """Return the letters that do not depend on what stands before and after the value, for each of three offsets."""
    forms = set()
    for offset in range(3):
        encoded = base64.b64encode(bytes(offset) + value)
        first = (0, 2, 3)[offset]
        last = (len(value) + offset) * 8 // 6
        forms |= {encoded[first:last], encoded[first:last].replace(b"+", b"-").replace(b"/", b"_")}
    return {form for form in forms if len(form) >= SHORTEST}
