"""Where the folder of a job comes from when git brings it: an https address, a whole commit, a folder in it, a key.

code:
  git: https://github.com/team/vision.git
  commit: 5f2b6e0c7d1a4f3c9b8e2d6a1c0f7e5b4a3d2c1b
  subdir: train                                   left out for all of the repository
  key: {secret: deploy, of: queue}                left out where the repository is public

Which hosts are allowed, and whether the commit is there, is decided by ``scheduler/services/code/git.py``.
"""

import hashlib
import json
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from scheduler.core.spec.env import OWNERS, SECRET_NAME, SecretUse
from scheduler.core.spec.reading import FieldReader, quoted

KEYS = ("git", "commit", "subdir", "key")
URL_BYTES = 500
SUBDIR_BYTES = 500
COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
# No "-" in front, which a program could take for an option; no "@", "?" or "#".
_PATH = re.compile(r"(?:/[A-Za-z0-9_.~+%][A-Za-z0-9_.~+%-]*)+/?")
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9A-Fa-f:.]+\]")
_RIGHT = "an https address such as https://github.com/team/vision.git"


@dataclass(frozen=True, slots=True, kw_only=True)
class Git:
    """A folder of a repository as of one commit; ``key`` is a secret with a token, or with user:password."""

    url: str
    commit: str
    subdir: str = ""
    key: SecretUse | None = None

    @property
    def host(self) -> str:
        """Return the host in lower case, with its port where the address names one."""
        return urlsplit(self.url).netloc.lower()

    @property
    def source(self) -> str:
        """Return a hash of address, commit and folder, which is the same for whatever key they are read with."""
        return hashlib.sha256(json.dumps([self.url, self.commit, self.subdir]).encode()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON data."""
        found: dict[str, Any] = {"git": self.url, "commit": self.commit}
        found |= {"subdir": self.subdir} if self.subdir else {}
        return found | ({"key": self.key.to_json()} if self.key is not None else {})


def read_git(reader: FieldReader, data: Mapping[str, object]) -> Git | None:
    """Return where the folder comes from; None where a field is bad, which is then an entry of the reader."""
    before = len(reader.errors)
    if data.get("git") is None:
        reader.bad("/code/git", "required", f"code needs git beside its commit: {_RIGHT}.")
        return None
    url = reader.text(data["git"], "/code/git", label="code git", longest_bytes=URL_BYTES)
    if len(reader.errors) == before and (problem := _url_problem(url)):
        reader.bad("/code/git", *problem)
    commit = data.get("commit")
    if commit is None:
        reader.bad("/code/commit", "required", "code git needs a commit: all 40 digits that git rev-parse HEAD prints.")
    elif not isinstance(commit, str) or not COMMIT.fullmatch(commit):
        detail = (
            f"code commit must be all 40 digits of a commit, as git rev-parse HEAD prints them, not {quoted(commit)}. "
            "A branch or tag may have moved when the job starts again."
        )
        reader.bad("/code/commit", "characters", detail)
    subdir = _read_subdir(reader, data.get("subdir"))
    key = _read_key(reader, data.get("key"))
    return Git(url=url, commit=str(commit), subdir=subdir, key=key) if len(reader.errors) == before else None


def _url_problem(url: str) -> tuple[str, str] | None:
    """Return code and sentence of what is wrong with an address."""
    if not (url.isascii() and url.isprintable()):  # urlsplit would leave some of these out
        return "address", f"code git must be {_RIGHT}, not {quoted(url)}."
    try:
        parts = urlsplit(url)
        port, host = parts.port, parts.netloc.rpartition("@")[2]
    except ValueError:
        return "address", f"code git must be {_RIGHT}."
    if "@" in parts.netloc and parts.scheme in ("http", "https"):
        detail = "code git holds a user name or password. Keep it as a secret and name that: key: {secret: deploy}."
        return "secret", detail
    if parts.scheme not in ("http", "https") or "\\" in url:
        return "address", f"code git must be {_RIGHT}, not {quoted(url)}."
    name = host if port is None else host.rpartition(":")[0]
    if not _HOST.fullmatch(name) or not _PATH.fullmatch(parts.path) or parts.query or parts.fragment or "#" in url:
        return "address", f"code git must be {_RIGHT}, without a question mark or anchor."
    if ".." in parts.path.split("/"):
        return "address", f"code git must be {_RIGHT}, without '..'."
    return None


def _read_subdir(reader: FieldReader, value: object) -> str:
    if value is None or value == "":
        return ""
    before = len(reader.errors)
    text = reader.text(value, "/code/subdir", label="code subdir", longest_bytes=SUBDIR_BYTES)
    path = text.rstrip("/")
    is_plain = path.isprintable() and "\\" not in path and posixpath.normpath(path) == path
    if len(reader.errors) == before and (not is_plain or path.startswith("/") or path.split("/")[0] in ("..", ".")):
        detail = f"code subdir is a folder in the repository, such as src/train, not {quoted(text)}."
        reader.bad("/code/subdir", "path", detail)
    return path


def _read_key(reader: FieldReader, value: object) -> SecretUse | None:
    if value is None:
        return None
    right = "code key names a secret, such as {secret: deploy} or {secret: deploy, of: queue}."
    if not isinstance(value, Mapping) or not {"secret"} <= set(value) <= {"secret", "of"}:
        reader.bad("/code/key", "unknown", right)
        return None
    secret, of = value["secret"], value.get("of") or ""
    if not isinstance(secret, str) or not SECRET_NAME.fullmatch(secret):
        reader.bad("/code/key/secret", "characters", right)
        return None
    for one in ("", *OWNERS):
        if of == one:
            return SecretUse(name=secret, of=one)
    reader.bad("/code/key/of", "unknown", f"of is user or queue, not {quoted(of)}.")
    return None


def git_schema(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return the part of the JSON Schema."""
    return {
        "type": "object",
        "additionalProperties": False,
        "required": ["git", "commit"],
        "properties": {
            "git": {
                "description": "Address of a repository; its host is one that an admin allows.",
                "type": "string",
                "maxLength": URL_BYTES,
                "pattern": "^https?://[^@?#]+$",
                "examples": ["https://github.com/team/vision.git"],
            },
            "commit": {
                "description": "A whole commit: a branch or tag may move between two attempts.",
                "type": "string",
                "pattern": f"^(?:{COMMIT.pattern})$",
            },
            "subdir": {
                "description": "The folder in it that the job starts in; all of it when left out.",
                "type": "string",
                "maxLength": SUBDIR_BYTES,
            },
            "key": {
                "description": "A secret with a token, or user:password, where the repository is not public.",
                "anyOf": [
                    {
                        "type": "object",
                        "additionalProperties": False,
                        "required": ["secret"],
                        "properties": {
                            "secret": {
                                "description": "Name of a secret, see /secrets.",
                                "type": "string",
                                "pattern": f"^(?:{SECRET_NAME.pattern})$",
                            },
                            "of": {
                                "description": "Whose it is; the owner's, or else the queue's, when left out.",
                                "enum": [*OWNERS],
                            },
                        },
                    },
                    {"type": "null"},
                ],
            },
            "manifest": manifest | {"description": "What was found there; the cluster fills it in."},
        },
    }
