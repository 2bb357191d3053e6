"""The code of a job: the folder that was sent for it or that git brings, named by the SHA-256 of its manifest."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scheduler.core.spec.git import KEYS as GIT_KEYS
from scheduler.core.spec.git import Git, git_schema, read_git
from scheduler.core.spec.reading import FieldReader, quoted

PREFIX = "sha256:"
DIGEST = re.compile(PREFIX + r"[0-9a-f]{64}")
KEYS = ("manifest", *GIT_KEYS)
_SEND = "send the folder by `clusterweb submit .`, by the form, or to /api/v1/code, which answers with its manifest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """The folder that a job starts in.

    Attributes:
        manifest: SHA-256 of the manifest in hex, which is stored with the prefix ``sha256:``; empty until what git
            brings has been fetched.
        git: Where it comes from; None for a folder that was sent.
    """

    manifest: str = ""
    git: Git | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON data."""
        found = self.git.to_json() if self.git is not None else {}
        return found | ({"manifest": PREFIX + self.manifest} if self.manifest else {})


def read_code(reader: FieldReader, value: object) -> Code | None:
    """Return the code; None for a job without a folder."""
    if value is None:
        return None
    if isinstance(value, Mapping) and "dir" in value:
        # Only the computer that the folder is on can read it.
        reader.bad("/code/dir", "unresolved", f"code.dir names a folder of your computer: {_SEND}.")
        return None
    data = reader.mapping(value, "/code", label="code", keys=KEYS)
    manifest = data.get("manifest")
    is_of_git = any(data.get(name) is not None for name in GIT_KEYS)
    if manifest is None and not is_of_git:
        if isinstance(value, Mapping):
            reader.bad("/code/manifest", "required", f"code needs a manifest: {_SEND}. Or name git and commit.")
        return None
    digest = _read_manifest(reader, manifest) if manifest is not None else ""
    git = read_git(reader, data) if is_of_git else None
    return Code(manifest=digest, git=git) if git is not None or (digest and not is_of_git) else None


def _read_manifest(reader: FieldReader, manifest: object) -> str:
    if not isinstance(manifest, str) or not DIGEST.fullmatch(manifest):
        right = f"{PREFIX} and 64 hexadecimal digits in lower case"
        reader.bad("/code/manifest", "characters", f"code manifest must be {right}, not {quoted(manifest)}.")
        return ""
    return manifest.removeprefix(PREFIX)


def code_schema() -> dict[str, Any]:
    """Return the part of the JSON Schema."""
    manifest = {
        "description": "SHA-256 of the manifest of the folder, as /code answers it.",
        "type": "string",
        "pattern": f"^{DIGEST.pattern}$",
    }
    return {
        "description": "The folder that the job starts in: sent before, see /code, or of git. Null for none.",
        "anyOf": [
            {
                "type": "object",
                "additionalProperties": False,
                "required": ["manifest"],
                "properties": {"manifest": manifest},
            },
            git_schema(manifest),
            {"type": "null"},
        ],
        "default": None,
    }
