"""Python environments that a server is to have ready for jobs, and what became of each. Pure data, strict readers.

An environment is named by a digest of what it is made of and of the queue whose jobs use it. Asking for it is part of
the desired state: said again until the report says that it is ready, and no longer when no job waits for it.
"""

import base64
import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from agents.protocol.code import SHA256
from agents.protocol.errors import Malformed
from agents.protocol.fields import is_clean, read_bool, read_float, read_int, read_opt_int, read_str

EnvironmentKind = Literal["requirements", "lock"]
KINDS: tuple[EnvironmentKind, ...] = get_args(EnvironmentKind)
# ``waiting`` for a build to end or for room in the cache; ``failed`` until it is asked for anew.
EnvironmentState = Literal["waiting", "building", "ready", "failed"]
STATES: tuple[EnvironmentState, ...] = get_args(EnvironmentState)
# Files that an environment is made of, by its kind.
FILES_OF: Mapping[EnvironmentKind, tuple[str, ...]] = {
    "requirements": ("requirements.txt",),
    "lock": ("uv.lock", "pyproject.toml"),
}
FILE_BYTES = 2**20  # most of one such file
PACKED_CHARS = 2**20  # most of all of them in a message
TAIL_CHARS = 3000  # of the end of a build's log in a report
MOST_ENVIRONMENTS = 256  # in one message
PYTHON = re.compile(r"[0-9][0-9A-Za-z.+]{0,30}")
_UNPACKED_BYTES = 13 * FILE_BYTES  # two files whose characters are all escaped


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentWanted:
    """An environment that a server is to have.

    Attributes:
        digest: Names it.
        ask: Number of the request; a build that failed is tried anew under another one.
        queue_id: Of its jobs: it is built as the user that they run as.
        kind: What it is made of.
        packed: The files of its kind, see ``files_pack``; empty where the server said that it is ready.
    """

    digest: str
    ask: int
    queue_id: int
    kind: EnvironmentKind
    packed: str = ""

    @staticmethod
    def parse(data: dict[str, Any]) -> "EnvironmentWanted":
        """Read one out of JSON. Raises Malformed."""
        kind = data["kind"]
        if kind not in KINDS:
            raise Malformed("kind")
        return EnvironmentWanted(
            digest=read_str(data, "digest", pattern=SHA256),
            ask=read_int(data, "ask"),
            queue_id=read_int(data, "queue_id"),
            kind=kind,
            packed=read_str(data, "packed", most=PACKED_CHARS),
        )

    @property
    def files(self) -> dict[str, str]:
        """Return the files by name. Raises Malformed."""
        return files_unpack(self.packed, self.kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentReport:
    """How an environment stands on a server.

    Attributes:
        digest, ask: As it was wanted; ``ask`` is 0 for one that is kept and not asked for.
        state: See ``EnvironmentState``.
        detail: One sentence: why it failed, or what it waits for.
        done, total: Packages that are in it and that it will have; None before they are known.
        tail: End of the build's log; empty once it is ready.
        num_bytes: Of its files, once it is ready.
        build_s: How long the build took, or takes so far.
        is_passing: It failed by a fault of index, network, disk or server, which says nothing of its files.
    """

    digest: str
    state: EnvironmentState
    ask: int = 0
    detail: str = ""
    done: int | None = None
    total: int | None = None
    tail: str = ""
    num_bytes: int = 0
    build_s: float = 0.0
    is_passing: bool = False

    @staticmethod
    def parse(data: dict[str, Any]) -> "EnvironmentReport":
        """Read one out of JSON. Raises Malformed."""
        state = data["state"]
        if state not in STATES:
            raise Malformed("state")
        return EnvironmentReport(
            digest=read_str(data, "digest", pattern=SHA256),
            state=state,
            ask=read_int(data, "ask"),
            detail=read_str(data, "detail"),
            done=read_opt_int(data, "done", high=100_000),
            total=read_opt_int(data, "total", high=100_000),
            tail=read_str(data, "tail", most=TAIL_CHARS),
            num_bytes=read_int(data, "num_bytes"),
            build_s=read_float(data, "build_s"),
            is_passing=read_bool(data, "is_passing") if "is_passing" in data else False,
        )


def files_pack(files: Mapping[str, str]) -> str:
    """Return texts as they travel in a message: lock files are long and compress well."""
    return base64.b64encode(zlib.compress(json.dumps(dict(sorted(files.items()))).encode())).decode()


def files_unpack(packed: str, kind: EnvironmentKind) -> dict[str, str]:
    """Return the texts of ``files_pack``: all those of the kind and no others. Raises Malformed."""
    try:
        reader = zlib.decompressobj()
        files = json.loads(reader.decompress(base64.b64decode(packed, validate=True), _UNPACKED_BYTES))
    except (ValueError, zlib.error, RecursionError):
        raise Malformed("packed") from None
    if not isinstance(files, dict) or set(files) != set(FILES_OF[kind]):
        raise Malformed("packed")
    if not all(isinstance(text, str) and is_clean(text) for text in files.values()):
        raise Malformed("packed")
    return files
