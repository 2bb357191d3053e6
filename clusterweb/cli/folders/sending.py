"""Sends a folder: its manifest first, then the contents that the server lacks, many small ones in one request."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from clusterweb.cli.client import Client, Json
from clusterweb.cli.errors import CommandError
from clusterweb.cli.folders.folder import CHUNK_BYTES, Folder, FolderFile, read_folder
from clusterweb.cli.text import size

BUNDLE_BYTES = 32 * 2**20
NAMES_SHOWN = 4


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


def folder_send(client: Client, root: Path) -> Json:
    """Send what the server lacks of a folder, and return its answer. Raises CommandError."""
    folder = read_folder(root)
    if not folder.files:
        raise CommandError(f"There is no file to send in {root}.{_ignored_text(folder)}")
    manifest = json.dumps(folder.manifest()).encode()
    answer = client.upload("code", manifest, content_type="application/json")
    missing = set(answer["missing"])
    by_hash = {file.sha256: file for file in folder.files if file.sha256 in missing}
    sent_bytes, total = 0, size(answer["missing_bytes"])
    _tell(f"Sending {len(by_hash)} of {answer['files']} files, {total}", is_last=False)
    for bundle in _bundles(list(by_hash.values())):
        done = client.upload(f"code/{answer['manifest']}/blobs", Bundle(bundle))
        answer = {**answer, "complete": done["complete"]}
        sent_bytes += sum(file.size for file in bundle)
        _tell(f"Sent {size(sent_bytes)} of {total}", is_last=False)
    if not answer["complete"]:
        raise CommandError("The folder did not arrive whole. Submit again: what has arrived is not sent again.")
    kept = answer["files"] - len(by_hash)
    count = "1 file" if len(by_hash) == 1 else f"{len(by_hash)} files"
    sent = f"{count} sent, {total}" if by_hash else "Nothing to send"
    _tell(f"{sent}; {kept} were on the server.{_ignored_text(folder)}", is_last=True)
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


def _tell(text: str, *, is_last: bool) -> None:
    """Say how far it is: in one line of a terminal, at the end alone elsewhere."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="\n" if is_last else "", file=sys.stderr, flush=True)
    elif is_last:
        print(text, file=sys.stderr)


def _ignored_text(folder: Folder) -> str:
    if not folder.ignored:
        return ""
    names = ", ".join(folder.ignored[:NAMES_SHOWN]) + (", ..." if len(folder.ignored) > NAMES_SHOWN else "")
    return f" {len(folder.ignored)} ignored: {names}"
