"""The members of a gang, read by its leader during training from a small file that the supervisor replaces.

The file is ``{"version": n, "members": [id, ...]}`` with the leader first. A higher version replaces a lower one,
whatever became of that: nothing is ever done for a version that is not the newest.
"""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Members:
    """One version of the membership; ranks are places in ``ids``."""

    version: int
    ids: tuple[str, ...]


class MembershipFile:
    """Follows the file; costs one ``stat`` while nothing changes.

    Attributes:
        newest: Highest version seen; None before there is any.
        changed_s: When it was first seen.
    """

    def __init__(self, path: Path, *, clock: Callable[[], float]) -> None:
        self.newest: Members | None = None
        self.changed_s = 0.0
        self._path, self._clock = path, clock
        self._seen: tuple[int, int, int] | None = None

    def look(self) -> Members | None:
        """Return the newest version, read anew if the file was replaced; one that makes no sense is passed over."""
        try:
            status = os.stat(self._path)
            identity = (status.st_ino, status.st_mtime_ns, status.st_size)
            if identity == self._seen:
                return self.newest
            data = json.loads(self._path.read_bytes())
            found = Members(version=int(data["version"]), ids=tuple(map(str, data["members"])))
        except (OSError, ValueError, KeyError, TypeError):
            return self.newest
        self._seen = identity
        if found.ids and (self.newest is None or found.version > self.newest.version):
            self.newest, self.changed_s = found, self._clock()
        return self.newest
