"""The manifest of a sent folder: path, mode, size and SHA-256 of each file; its own SHA-256 names the code of a job.

Pure. The control plane checks what users send by it, an agent what it finds in the shared directory. A folder is kept
as regular files alone: no links, no devices, no empty folders. Names are checked so that they mean the same on every
file system.
"""

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

SHA256 = re.compile(r"[0-9a-f]{64}")
DIGEST_PREFIX = "sha256:"
VERSION = 1
MODES = {"644": 0o644, "755": 0o755}
PATH_BYTES = 1024
NAME_BYTES = 255
# What no folder may exceed, whatever an admin allows; a reader of a manifest takes no more.
FILES_AT_MOST = 100_000
BYTES_AT_MOST = 2**40
SHOWN_CHARS = 80
# Control and formatting characters, lone surrogates, line and paragraph ends: they hide what a name is.
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})

# Folders of the shared directory.
CODE_DIR = "code"
BLOBS_DIR = "blobs"
MANIFESTS_DIR = "manifests"


class CodeRefused(Exception):
    """A folder that cannot be taken.

    Attributes:
        code: Short stable word: ``path``, ``link``, ``device``, ``submodule``, ``case``, ``repeated``, ``name``,
            ``number``, ``size``, ``shape``.
        detail: One sentence with the name of the entry.
    """

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeLimits:
    """How much one folder may hold."""

    files: int = FILES_AT_MOST
    num_bytes: int = BYTES_AT_MOST


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeFile:
    """One regular file: ``path`` with ``/`` between names, ``mode`` 644 or 755, the SHA-256 of its content in hex."""

    path: str
    mode: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeManifest:
    """The files of a folder, in the order of their paths."""

    files: tuple[CodeFile, ...]

    @property
    def num_bytes(self) -> int:
        """Return the bytes of all files together."""
        return sum(file.size for file in self.files)

    @property
    def sizes(self) -> dict[str, int]:
        """Return the size of each content, by SHA-256."""
        return {file.sha256: file.size for file in self.files}

    def encode(self) -> bytes:
        """Return the one spelling of the manifest: equal folders give equal bytes."""
        files = [{"mode": f.mode, "path": f.path, "sha256": f.sha256, "size": f.size} for f in self.files]
        data = {"files": files, "version": VERSION}
        return json.dumps(data, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()

    @property
    def digest(self) -> str:
        """Return the SHA-256 of the manifest in hex."""
        return hashlib.sha256(self.encode()).hexdigest()

    @staticmethod
    def of(files: Iterable[CodeFile], limits: CodeLimits) -> "CodeManifest":
        """Return the manifest of files in any order. Raises CodeRefused, with the name of the bad file."""
        taken = tuple(sorted(files, key=lambda file: file.path))
        if not taken:
            raise CodeRefused("number", "The folder holds no file.")
        names = NameCheck(limits)
        sizes: dict[str, int] = {}
        for file in taken:
            names.add(file.path)
            names.grow(file.path, file.size)
            if sizes.setdefault(file.sha256, file.size) != file.size:
                raise CodeRefused("size", f"{shown_name(file.path)}: one content has two sizes.")
        return CodeManifest(files=taken)

    @staticmethod
    def read(data: object, limits: CodeLimits) -> "CodeManifest":
        """Return the manifest in JSON data. Raises CodeRefused, with the name of the bad file."""
        right = f'a manifest is {{"version": {VERSION}, "files": [{{"path", "mode", "size", "sha256"}}]}}'
        if not isinstance(data, dict) or set(data) != {"version", "files"} or data["version"] != VERSION:
            raise CodeRefused("shape", f"This is no manifest: {right}.")
        rows = data["files"]
        if not isinstance(rows, list):
            raise CodeRefused("shape", f"files must be a list: {right}.")
        if len(rows) > limits.files:
            raise CodeRefused("number", f"The folder has {len(rows):,} files; at most {limits.files:,} can be sent.")
        return CodeManifest.of((_read_file(row, place) for place, row in enumerate(rows)), limits)

    @staticmethod
    def decode(content: bytes, *, digest: str) -> "CodeManifest":
        """Return the manifest in a file that is named by its digest. Raises CodeRefused: it is not that one."""
        if hashlib.sha256(content).hexdigest() != digest:
            raise CodeRefused("shape", "The list of the folder's files is damaged.")
        try:
            return CodeManifest.read(json.loads(content), CodeLimits())
        except ValueError:
            raise CodeRefused("shape", "The list of the folder's files is damaged.") from None


class NameCheck:
    """Looks at the paths of a folder one after the other, in any order. Every method raises CodeRefused."""

    def __init__(self, limits: CodeLimits) -> None:
        self._limits = limits
        self._num_files = 0
        self._num_bytes = 0
        self._files: set[str] = set()
        self._folders: set[str] = set()
        self._spelled: dict[str, str] = {}  # as a file system spells a path that knows no case: the path

    def add(self, path: str) -> None:
        """Take the path of a file."""
        check_path(path)
        if path in self._files:
            raise CodeRefused("repeated", f"{shown_name(path)} is there twice.")
        self._num_files += 1
        if self._num_files > self._limits.files:
            raise CodeRefused(
                "number", f"The folder has more than {self._limits.files:,} files, from {shown_name(path)} on."
            )
        names = path.split("/")
        for end in range(1, len(names)):
            folder = "/".join(names[:end])
            if folder in self._files:
                raise CodeRefused("repeated", f"{shown_name(folder)} is a file and a folder.")
            if folder not in self._folders:
                self._spell(folder)
                self._folders.add(folder)
        if path in self._folders:
            raise CodeRefused("repeated", f"{shown_name(path)} is a file and a folder.")
        self._spell(path)
        self._files.add(path)

    def grow(self, path: str, num_bytes: int) -> None:
        """Take bytes of a file."""
        self._num_bytes += num_bytes
        if self._num_bytes > self._limits.num_bytes:
            most = size_shown(self._limits.num_bytes)
            raise CodeRefused("size", f"The folder takes more than {most}, from {shown_name(path)} on.")

    def _spell(self, path: str) -> None:
        key = unicodedata.normalize("NFC", path).casefold()
        other = self._spelled.setdefault(key, path)
        if other != path:
            raise CodeRefused("case", f"{shown_name(other)} and {shown_name(path)} differ by case alone.")


def check_path(path: str) -> None:
    """Refuse a path that leads out of the folder, or whose name some file system cannot hold. Raises CodeRefused."""
    name = shown_name(path)
    if not path:
        raise CodeRefused("name", "A file has no name.")
    if any(unicodedata.category(letter) in _UNSEEN for letter in path):
        raise CodeRefused("name", f"{name} has a character in its name that cannot be seen.")
    if path.startswith("/") or re.match(r"[A-Za-z]:", path):
        raise CodeRefused("path", f"{name} is an absolute path.")
    if "\\" in path:
        raise CodeRefused("path", f"{name} has a backslash in its name.")
    parts = path.split("/")
    if ".." in parts or "." in parts:
        raise CodeRefused("path", f"{name} leads out of the folder.")
    if "" in parts:
        raise CodeRefused("path", f"{name} is no path of a file.")
    if len(path.encode()) > PATH_BYTES or max(len(part.encode()) for part in parts) > NAME_BYTES:
        most = f"at most {NAME_BYTES} bytes in a name and {PATH_BYTES} in a path"
        raise CodeRefused("name", f"{name} is too long: {most}.")


def shown_name(path: str) -> str:
    """Return a path as a sentence may quote it: short, on one line."""
    text = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in path[:PATH_BYTES])
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}…"


def size_shown(num_bytes: int) -> str:
    """Return a size as a sentence says it."""
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if num_bytes >= size:
            return f"{num_bytes / size:.1f}".removesuffix(".0") + f" {unit}"
    return f"{num_bytes} bytes"


def _read_file(row: object, place: int) -> CodeFile:
    if not isinstance(row, dict) or not isinstance(row.get("path"), str):
        raise CodeRefused("shape", f"File {place + 1} of the manifest has no path.")
    path, name = row["path"], shown_name(row["path"])
    mode, size, sha256 = row.get("mode"), row.get("size"), row.get("sha256")
    if set(row) != {"path", "mode", "size", "sha256"}:
        raise CodeRefused("shape", f"{name}: a file of a manifest has path, mode, size and sha256.")
    if mode not in MODES:
        raise CodeRefused("shape", f"{name}: mode must be 644 or 755.")
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= BYTES_AT_MOST:
        raise CodeRefused("size", f"{name}: size must be a number of bytes.")
    if not isinstance(sha256, str) or not SHA256.fullmatch(sha256):
        raise CodeRefused("shape", f"{name}: sha256 must be 64 hexadecimal digits in lower case.")
    return CodeFile(path=path, mode=mode, size=size, sha256=sha256)
