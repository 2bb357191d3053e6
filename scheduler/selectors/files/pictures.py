"""Tells pictures by their first bytes: what a browser may show is one of four kinds, whatever its name says."""

import io
import os

from scheduler.core.model.errors import NotFound

MOST_BYTES = 8 * 1024 * 1024
HEAD_BYTES = 12
SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp")


def picture_type(file: io.FileIO, path: str) -> str:
    """Return the content type of a picture. Raises NotFound for any other file, and for one that is too large."""
    head = os.pread(file.fileno(), HEAD_BYTES, 0)
    kind = _kind(head)
    if not kind:
        raise NotFound(f"{path} is no png, jpg, gif or webp.")
    if os.fstat(file.fileno()).st_size > MOST_BYTES:
        raise NotFound(f"{path} is larger than the {MOST_BYTES // 2**20} MiB of which a picture is shown.")
    return kind


def _kind(head: bytes) -> str:
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head[:6] in (b"GIF87a", b"GIF89a"):
        return "image/gif"
    return "image/webp" if head[:4] == b"RIFF" and head[8:12] == b"WEBP" else ""
