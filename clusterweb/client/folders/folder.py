"""Which files of a folder are sent with a job.

``.gitignore`` and ``.clusterwebignore`` are honoured in each folder as git does, by the library pathspec; the second
has the last word. Never sent: ``.git``, ``__pycache__`` and virtual environments, which work on this computer alone.
"""

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clusterweb.client.errors import CommandError

IGNORE_NAMES = (".gitignore", ".clusterwebignore")
NEVER = frozenset({".git", "__pycache__"})
VENV_MARK = "pyvenv.cfg"
CHUNK_BYTES = 1024 * 1024
# ``code: {dir: path}`` of a spec on one line, or on two; the server reads all the rest.
CODE_DIR = re.compile(
    r"^code:[ \t]*(?:\{[ \t]*dir:[ \t]*(?P<one>[^}\n]+?)[ \t]*\}|\n[ \t]+dir:[ \t]*(?P<two>[^\n#]+?))[ \t]*(?:#.*)?$",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderFile:
    """One file that is sent."""

    path: str
    place: Path
    mode: str
    size: int
    sha256: str


@dataclass(slots=True, kw_only=True)
class Folder:
    """A folder as it is sent, and what of it is not."""

    files: list[FolderFile] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)

    def manifest(self) -> dict[str, Any]:
        """Return what the server is told."""
        rows = [{"path": f.path, "mode": f.mode, "size": f.size, "sha256": f.sha256} for f in self.files]
        return {"version": 1, "files": rows}


def code_dir(spec: bytes) -> str:
    """Return the path in ``code: {dir: path}`` of a spec as it is written; empty where there is none."""
    text = spec.decode(errors="replace")
    match = CODE_DIR.search(text)
    named = "" if match is None else (match["one"] or match["two"]).strip("\"'")
    if not named and text.lstrip().startswith("{"):
        try:
            code = json.loads(text).get("code")
        except ValueError:
            return ""  # the server says what is wrong with it
        named = str(code.get("dir", "")) if isinstance(code, dict) else ""
    return named


def named_folder(spec: bytes, beside: Path) -> Path | None:
    """Return the folder in ``code: {dir: path}`` of a spec."""
    named = code_dir(spec)
    if not named:
        return None
    folder = beside / named
    if not folder.is_dir():
        raise CommandError(f"code names the folder {named}, and {folder} is none.")
    return folder


def read_folder(root: Path) -> Folder:
    """Return a folder with the hashes of its files. Raises CommandError, with the name of what cannot be sent."""
    folder = Folder()
    for path, place in _walk(root, folder.ignored):
        status = place.lstat()
        if not stat.S_ISREG(status.st_mode):
            kind = "a link" if stat.S_ISLNK(status.st_mode) else "no regular file"
            raise CommandError(f"{path} is {kind}, and only files are sent. Name it in .clusterwebignore.")
        try:
            sha256, size = _hashed(place)
        except OSError as error:
            raise CommandError(f"{path}: {error.strerror}.") from None
        mode = "755" if status.st_mode & stat.S_IXUSR else "644"
        folder.files.append(FolderFile(path=path, place=place, mode=mode, size=size, sha256=sha256))
    return folder


def folder_paths(root: Path) -> tuple[list[str], list[str]]:
    """Return the paths of the files that are sent of a folder, and what is ignored. Raises CommandError."""
    ignored: list[str] = []
    return [path for path, _ in _walk(root, ignored)], ignored


def _hashed(place: Path) -> tuple[str, int]:
    content_hash, size = hashlib.sha256(), 0
    with place.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            content_hash.update(chunk)
            size += len(chunk)
    return content_hash.hexdigest(), size


def _walk(root: Path, ignored: list[str]) -> Iterator[tuple[str, Path]]:
    """Yield what is not ignored, by its path from ``root`` on; ignored folders are not entered."""
    waiting: list[tuple[str, list[tuple[str, Any]]]] = [("", [])]
    while waiting:
        inside, rules = waiting.pop()
        try:
            entries = sorted(os.scandir(root / inside), key=lambda entry: entry.name)
        except OSError as error:
            raise CommandError(f"{inside or root}: {error.strerror}.") from None
        rules = [*rules, *_rules(root / inside, inside, {entry.name for entry in entries})]
        for entry in entries:
            path = f"{inside}{entry.name}"
            is_folder = entry.is_dir(follow_symlinks=False)
            shown = f"{path}/" if is_folder else path
            is_venv = is_folder and os.path.lexists(os.path.join(entry.path, VENV_MARK))
            if entry.name in NEVER or is_venv or _is_ignored(rules, shown):
                ignored.append(shown)
            elif is_folder:
                waiting.append((shown, rules))
            else:
                yield path, Path(entry.path)


def _rules(place: Path, inside: str, names: set[str]) -> list[tuple[str, Any]]:
    """Return the rules of one folder, with the folder that they count from."""
    lines = []
    for name in IGNORE_NAMES:
        if name in names:
            lines += (place / name).read_text(encoding="utf-8", errors="replace").splitlines()
    if not lines:
        return []
    try:
        from pathspec import GitIgnoreSpec  # only where there is something to ignore
    except ImportError:
        raise CommandError("To honour .gitignore the command needs a library: pip install pathspec") from None
    return [(inside, GitIgnoreSpec.from_lines(lines))]


def _is_ignored(rules: list[tuple[str, Any]], path: str) -> bool:
    """Return what the nearest rule says that says anything."""
    for inside, spec in reversed(rules):
        said = spec.check_file(path[len(inside) :]).include
        if said is not None:
            return bool(said)
    return False
