"""The folders of environments on a server, below its state directory.

    environments/<digest>-<tag>/order.json    what is built, written before the build starts
    environments/<digest>-<tag>/lock          held by the builder; the system frees it with the process
    environments/<digest>-<tag>/state.json    how far it is, or how it ended
    environments/<digest>-<tag>/made.json     there exactly when it is whole; its time is that of the last use
    environments/<digest>-<tag>/venv          the environment: what jobs see
    environments/<digest>-<tag>/work          files, HOME and temporary files of the build
    environments/cache-<queue>/               uv's cache, of one queue, as its builds run code of its jobs

A folder without ``made.json`` whose lock is free was being built when its builder was killed.
"""

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents.core.environment import environment_name
from agents.files.atomic import open_directory, read_at, write_at
from agents.files.removal import tree_remove
from agents.protocol.environments import EnvironmentReport
from agents.protocol.errors import Malformed

ORDER, LOCK, STATE, MADE = "order.json", "lock", "state.json", "made.json"
GONE = "gone-"
CACHE = "cache-"
TOUCH_EVERY_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """One environment as it lies on the disk.

    Attributes:
        name: Of its folder.
        digest, ask, queue_id: Of the order that it was made for.
        starts: How often its build was started.
        is_building: Its builder lives.
        report: What is said of it; None where its builder was killed.
        used_s: When a job last needed it, by the wall clock; 0 unless it is ready.
    """

    name: str
    digest: str
    ask: int
    queue_id: int
    starts: int
    is_building: bool
    report: EnvironmentReport | None
    used_s: float = 0.0

    @property
    def is_ready(self) -> bool:
        """Return whether jobs can start in it."""
        return self.report is not None and self.report.state == "ready"


class EnvironmentStore:
    """The environments of one server; ``tag`` names the settings with which they are made now."""

    def __init__(self, root: Path, *, tag: str) -> None:
        self._root = root
        self.tag = tag

    def path(self, name: str) -> Path:
        """Return the folder of an environment."""
        return self._root / name

    def name_of(self, digest: str) -> str:
        """Return the name of an environment's folder with the present settings."""
        return environment_name(digest, self.tag)

    def cache_path(self, queue_id: int) -> Path:
        """Return uv's cache for the builds of a queue."""
        return self._root / f"{CACHE}{queue_id}"

    def kept(self) -> list[Kept]:
        """Return all environments, those of other settings too."""
        try:
            names = sorted(os.listdir(self._root))
        except OSError:
            return []
        return [found for name in names if not name.startswith((GONE, CACHE)) and (found := self._kept(name))]

    def prepare(self, order: dict[str, Any], *, name: str) -> None:
        """Make the folder of an environment with its order, empty but for that. Raises OSError."""
        self._root.mkdir(parents=True, exist_ok=True, mode=0o711)
        os.chmod(self._root, 0o711)  # noqa: S103  (to be passed through by jobs, not to be listed)
        self.drop(name)
        os.mkdir(self.path(name))
        os.chmod(self.path(name), 0o711)  # noqa: S103  (likewise, whatever the umask of the agent)
        with _opened(self.path(name)) as fd:
            write_at(fd, ORDER, json.dumps(order).encode(), durable=False)

    def fail(self, kept: Kept, detail: str) -> None:
        """Write down that an environment could not be built here, by no fault of its files."""
        report = EnvironmentReport(digest=kept.digest, ask=kept.ask, state="failed", detail=detail, is_passing=True)
        with contextlib.suppress(OSError), _opened(self.path(kept.name)) as fd:
            write_at(fd, STATE, json.dumps(state_json(report)).encode(), durable=False)

    def use(self, kept: Kept) -> None:
        """Note that a job needs it."""
        if time.time() - kept.used_s > TOUCH_EVERY_S:
            with contextlib.suppress(OSError):
                os.utime(self.path(kept.name) / MADE)

    def drop(self, name: str) -> None:
        """Take a folder out of use at once; ``remove_dropped`` removes its files."""
        with contextlib.suppress(FileNotFoundError):
            os.rename(self.path(name), self._root / f"{GONE}{name}-{time.time_ns()}")

    def drop_cache(self, queue_id: int) -> None:
        """Take the cache of a queue out of use; no build of the queue may run."""
        self.drop(f"{CACHE}{queue_id}")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._root / f"{CACHE}{queue_id}.json")

    def caches(self) -> dict[int, int]:
        """Return by queue the bytes of uv's caches beside what the environments hold of them, as last measured."""
        found = {}
        for path in self._root.glob(f"{CACHE}*.json"):
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                found[int(path.stem.removeprefix(CACHE))] = int(json.loads(path.read_text())["num_bytes"])
        return found

    def remove_dropped(self, *, budget_s: float) -> None:
        """Remove dropped environments for about ``budget_s``; the next call goes on with the rest."""
        end_s = time.monotonic() + budget_s
        with contextlib.suppress(OSError), _opened(self._root) as fd:
            for name in os.listdir(fd):
                if name.startswith(GONE):
                    tree_remove(name, fd, end_s=end_s)

    def _kept(self, name: str) -> Kept | None:
        try:
            with _opened(self.path(name)) as fd:
                order = json.loads(read_at(fd, ORDER) or b"null")
                is_building = is_locked(fd)
                report = _report(fd, order, is_building=is_building)
                used_s = os.stat(MADE, dir_fd=fd).st_mtime if report and report.state == "ready" else 0.0
                return Kept(
                    name=name,
                    digest=str(order["digest"]),
                    ask=int(order["ask"]),
                    queue_id=int(order["queue_id"]),
                    starts=int(order["starts"]),
                    is_building=is_building,
                    report=report,
                    used_s=used_s,
                )
        except NotADirectoryError:
            return None
        except (OSError, ValueError, KeyError, TypeError):
            return Kept(name=name, digest="", ask=0, queue_id=0, starts=0, is_building=False, report=None)


def _report(fd: int, order: dict[str, Any], *, is_building: bool) -> EnvironmentReport | None:
    made = read_at(fd, MADE)
    found = made or read_at(fd, STATE)
    try:
        report = None if found is None else EnvironmentReport.parse(json.loads(found))
    except (Malformed, KeyError, TypeError, ValueError):
        report = None
    if made is not None or (report is not None and report.state == "failed"):
        return report
    begun = EnvironmentReport(digest=order["digest"], ask=order["ask"], state="building")
    return (report or begun) if is_building else None


def state_json(report: EnvironmentReport) -> dict[str, Any]:
    """Return what ``EnvironmentReport.parse`` reads."""
    return {field: getattr(report, field) for field in EnvironmentReport.__slots__}


def is_locked(dir_fd: int) -> bool:
    """Return whether a builder lives that holds the folder."""
    try:
        lock = os.open(LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=dir_fd)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    fd = open_directory(str(path))
    try:
        yield fd
    finally:
        os.close(fd)
