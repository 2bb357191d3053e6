"""The code of a job: the folder that was sent for it, named by the SHA-256 of its manifest."""

import re
from dataclasses import dataclass
from typing import Any

from scheduler.core.spec.reading import FieldReader, quoted

PREFIX = "sha256:"
DIGEST = re.compile(PREFIX + r"[0-9a-f]{64}")
KEYS = ("manifest",)
_SEND = "send the folder by `clusterweb submit .`, by the form, or to /api/v1/code, which answers with its manifest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """``manifest``: SHA-256 of the manifest in hex, which is stored with the prefix ``sha256:``."""

    manifest: str

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return {"manifest": PREFIX + self.manifest}


def read_code(reader: FieldReader, value: object) -> Code | None:
    """Return the code; None for a job without a folder."""
    if value is None:
        return None
    if isinstance(value, dict) and "dir" in value:
        # Only the computer that the folder is on can read it.
        reader.bad("/code/dir", "unresolved", f"code.dir names a folder of your computer: {_SEND}.")
        return None
    data = reader.mapping(value, "/code", label="code", keys=KEYS)
    manifest = data.get("manifest")
    if manifest is None:
        if isinstance(value, dict):
            reader.bad("/code/manifest", "required", f"code needs a manifest: {_SEND}.")
        return None
    if not isinstance(manifest, str) or not DIGEST.fullmatch(manifest):
        right = f"{PREFIX} and 64 hexadecimal digits in lower case"
        reader.bad("/code/manifest", "characters", f"code manifest must be {right}, not {quoted(manifest)}.")
        return None
    return Code(manifest=manifest.removeprefix(PREFIX))


def code_schema() -> dict[str, Any]:
    """Return the part of the JSON Schema."""
    return {
        "description": "The folder that the job starts in, sent before: see /code. Null for none.",
        "anyOf": [
            {
                "type": "object",
                "additionalProperties": False,
                "required": ["manifest"],
                "properties": {
                    "manifest": {
                        "description": "SHA-256 of the manifest of the folder, as /code answers it.",
                        "type": "string",
                        "pattern": f"^{DIGEST.pattern}$",
                    }
                },
            },
            {"type": "null"},
        ],
        "default": None,
    }
