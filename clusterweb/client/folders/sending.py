"""Sends a folder: its manifest first, then the contents that the server lacks, many small ones in one request."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from clusterweb.client.errors import CommandError
from clusterweb.client.folders.folder import CHUNK_BYTES, FolderFile, read_folder
from clusterweb.client.rest import Json, Rest

BUNDLE_BYTES = 32 * 2**20
NAMES_SHOWN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """How far the sending of a folder is.

    Attributes:
        missing: Files that the server lacked.
        known: Files that it had.
        sent_bytes: Of those that it lacked, so far.
        missing_bytes: Of all of them.
        ignored: What the folder says that it is not sent.
        is_whole: All has arrived.
    """

    missing: int
    known: int
    sent_bytes: int
    missing_bytes: int
    ignored: tuple[str, ...]
    is_whole: bool = False


Tell = Callable[[Sent], None]


class Bundle:
    """Contents for one request: the SHA-256 of each as 32 bytes, then its bytes."""

    def __init__(self, files: list[FolderFile]) -> None:
        self.files = files

    def __len__(self) -> int:
        """Return its bytes."""
        return sum(32 + file.size for file in self.files)

    def __iter__(self) -> Iterator[bytes]:
        """Read the files anew; raises CommandError for one that became shorter."""
        for file in self.files:
            yield bytes.fromhex(file.sha256)
            left = file.size
            with file.place.open("rb") as content:
                while left and (chunk := content.read(min(CHUNK_BYTES, left))):
                    left -= len(chunk)
                    yield chunk
            if left:
                raise CommandError(f"{file.path} changed while it was sent. Submit again.")


def folder_send(rest: Rest, root: Path, tell: Tell | None = None) -> Json:
    """Send what the server lacks of a folder, and return its answer. Raises CommandError."""
    folder = read_folder(root)
    if not folder.files:
        raise CommandError(f"There is no file to send in {root}.{ignored_text(folder.ignored)}")
    manifest = json.dumps(folder.manifest()).encode()
    answer = rest.upload("code", manifest, content_type="application/json")
    missing = set(answer["missing"])
    by_hash = {file.sha256: file for file in folder.files if file.sha256 in missing}
    so_far = Sent(
        missing=len(by_hash),
        known=answer["files"] - len(by_hash),
        sent_bytes=0,
        missing_bytes=answer["missing_bytes"],
        ignored=tuple(folder.ignored),
    )
    tell = tell or (lambda sent: None)
    tell(so_far)
    for bundle in _bundles(list(by_hash.values())):
        done = rest.upload(f"code/{answer['manifest']}/blobs", Bundle(bundle))
        answer = {**answer, "complete": done["complete"]}
        so_far = replace(so_far, sent_bytes=so_far.sent_bytes + sum(file.size for file in bundle))
        tell(so_far)
    if not answer["complete"]:
        raise CommandError("The folder did not arrive whole. Submit again: what has arrived is not sent again.")
    tell(replace(so_far, is_whole=True))
    return answer


def _bundles(files: list[FolderFile]) -> Iterator[list[FolderFile]]:
    """Yield files for one request each; a large one goes alone."""
    bundle: list[FolderFile] = []
    taken = 0
    for file in files:
        if bundle and taken + file.size > BUNDLE_BYTES:
            yield bundle
            bundle, taken = [], 0
        bundle.append(file)
        taken += file.size
    if bundle:
        yield bundle


def ignored_text(ignored: Sequence[str]) -> str:
    """Return how many entries are not sent, with the first names; empty for none."""
    if not ignored:
        return ""
    names = ", ".join(ignored[:NAMES_SHOWN]) + (", ..." if len(ignored) > NAMES_SHOWN else "")
    return f" {len(ignored)} ignored: {names}"
