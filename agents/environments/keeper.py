"""Keeps the environments of a server as the desired state wants them: builds, reports, removes. Level-triggered.

Called each second with all that is wanted. What is on the disk is the only memory, so that an agent that is killed goes
on where its builders are: one that lives is left alone, one that was killed begins anew.
"""

import fcntl
import logging
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from agents.environments.store import LOCK, EnvironmentStore, Kept
from agents.protocol.environments import MOST_ENVIRONMENTS, EnvironmentReport, EnvironmentWanted
from agents.protocol.errors import Malformed
from agents.protocol.ports import SpawnRequest

log = logging.getLogger(__name__)

MOST_BUILDS = 2  # at once: the jobs of the server need its cores
MOST_STARTS = 3  # of one build whose process is killed each time
REMOVAL_S = 0.2  # of each second


class Builders(Protocol):
    """Starts and ends builders."""

    def start_with(self, request: SpawnRequest, *, stdin: int) -> object:
        """Start a detached process that holds a descriptor as its standard input. Raises OSError."""

    def end_all(self, attempt_id: str) -> int:
        """Send KILL to every process with this mark; return how many there were."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildSettings:
    """What all builds of this server have in common.

    Attributes:
        uv: Path of uv.
        python: Path of the Python that environments are made with.
        base: Folder of that Python's packages, which jobs see behind their own.
        variables: The admin's settings for uv.
        timeout_s: Most that one build may take, seconds.
        memory_bytes, disk_bytes: Most that one build may take of each.
        cache_bytes: Most bytes of all environments; those in use are never removed for it.
        first_uid: User of the jobs of queue 0; None where jobs run as the agent's own user.
    """

    uv: str
    python: str
    base: str
    variables: Mapping[str, str]
    timeout_s: float
    memory_bytes: int
    disk_bytes: int
    cache_bytes: int
    first_uid: int | None


class Keeper:
    """The environments of one server.

    Attributes:
        tag: What those of today are made with.
    """

    def __init__(
        self,
        store: EnvironmentStore,
        settings: BuildSettings,
        *,
        builders: Builders,
        request: Callable[[str, str], SpawnRequest],
    ) -> None:
        """Begin with what is on the disk; ``request`` says by name and folder how a builder is started."""
        self._store = store
        self._settings = settings
        self._builders = builders
        self._request = request
        self.tag = store.tag

    def align(self, wanted: Sequence[EnvironmentWanted], *, in_use: Collection[str]) -> tuple[EnvironmentReport, ...]:
        """Go on towards what is wanted and return how environments stand, as many as a report may hold.

        Those that are wanted come before others, those that were used last before older ones.

        Args:
            wanted: What jobs wait for, or will start in.
            in_use: Digests of environments that attempts run in.
        """
        kept = {one.name: one for one in sorted(self._store.kept(), key=lambda one: -one.used_s)}
        names = {self._store.name_of(one.digest): one for one in wanted}
        unwanted = [self._unwanted(one, in_use) for name, one in kept.items() if name not in names]
        reports: list[EnvironmentReport | None] = []
        free = MOST_BUILDS - sum(one.is_building for name, one in kept.items() if name in names)
        is_full = self._make_room(kept, names, in_use)
        for name, one in names.items():
            found = kept.get(name)
            report = self._standing(one, found)
            if report is None and one.packed:
                report = self._waits(one, free=free, is_full=is_full) or self._start(name, one, found)
                free -= report.state == "building"
            reports.append(report)
        self._store.remove_dropped(budget_s=REMOVAL_S)
        told = [one for one in (*reports, *unwanted) if one is not None][:MOST_ENVIRONMENTS]
        return tuple(sorted(told, key=lambda one: one.digest))

    def _standing(self, wanted: EnvironmentWanted, found: Kept | None) -> EnvironmentReport | None:
        """Return how a wanted environment stands; None where its build is to be started."""
        if found is None or found.report is None:
            return None
        if found.is_ready:
            self._store.use(found)
        elif found.report.state == "failed" and found.ask != wanted.ask:
            return None
        return replace(found.report, ask=wanted.ask, tail="" if found.is_ready else found.report.tail)

    def _unwanted(self, found: Kept, in_use: Collection[str]) -> EnvironmentReport | None:
        """End or remove what no job waits for; an environment that is whole stays for the next one."""
        if found.is_building:
            self._builders.end_all(found.name)
            return None
        is_of_today = found.name == self._store.name_of(found.digest)
        if found.is_ready and found.report is not None and (is_of_today or found.digest in in_use):
            if found.digest in in_use:
                self._store.use(found)
            return replace(found.report, ask=0, tail="") if is_of_today else None
        self._store.drop(found.name)
        return None

    def _waits(self, wanted: EnvironmentWanted, *, free: int, is_full: str) -> EnvironmentReport | None:
        detail = is_full or ("" if free > 0 else "Other environments are being built on this server.")
        if not detail:
            return None
        return EnvironmentReport(digest=wanted.digest, ask=wanted.ask, state="waiting", detail=detail)

    def _start(self, name: str, wanted: EnvironmentWanted, found: Kept | None) -> EnvironmentReport:
        starts = 1 + (found.starts if found is not None and found.report is None else 0)
        report = EnvironmentReport(digest=wanted.digest, ask=wanted.ask, state="building")
        try:
            if starts > MOST_STARTS and found is not None:
                self._store.fail(found, f"The build was killed {MOST_STARTS} times.")
                detail = f"The build was killed {MOST_STARTS} times."
                return replace(report, state="failed", detail=detail, is_passing=True)
            if found is not None:
                self._builders.end_all(name)  # what a builder that was killed left behind
            self._store.prepare(self._order(wanted, starts=starts), name=name)
            self._spawn(name)
        except (OSError, Malformed) as error:
            log.warning("build_not_started", extra={"environment": wanted.digest, "problem": str(error)})
            return replace(report, state="waiting", detail=f"The build could not be started: {error}."[:300])
        log.info("build_started", extra={"environment": wanted.digest, "starts": starts})
        return report

    def _order(self, wanted: EnvironmentWanted, *, starts: int) -> dict[str, object]:
        settings = self._settings
        return {
            "digest": wanted.digest,
            "ask": wanted.ask,
            "queue_id": wanted.queue_id,
            "kind": wanted.kind,
            "files": wanted.files,
            "starts": starts,
            "uid": None if settings.first_uid is None else settings.first_uid + wanted.queue_id,
            "cache": str(self._store.cache_path(wanted.queue_id)),
            "uv": settings.uv,
            "python": settings.python,
            "base": settings.base,
            "settings": dict(settings.variables),
            "timeout_s": settings.timeout_s,
            "memory_bytes": settings.memory_bytes,
            "disk_bytes": settings.disk_bytes,
        }

    def _spawn(self, name: str) -> None:
        folder = self._store.path(name)
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._builders.start_with(self._request(name, str(folder)), stdin=lock)
        finally:
            os.close(lock)

    def _make_room(self, kept: dict[str, Kept], wanted: Collection[str], in_use: Collection[str]) -> str:
        """Remove what was used longest ago while there is too much; return why nothing new may be built, or nothing.

        uv's cache goes with an environment of its queue, as it holds the same files.
        """
        caches = self._store.caches()
        ready = [one for one in kept.values() if one.is_ready]
        total = sum(caches.values()) + sum(one.report.num_bytes for one in ready if one.report is not None)
        building = {one.queue_id for one in kept.values() if one.is_building}
        spared = [one for one in ready if one.name in wanted or one.digest in in_use]
        for one in sorted((one for one in ready if one not in spared), key=lambda one: one.used_s):
            if total <= self._settings.cache_bytes:
                break
            log.info("environment_removed", extra={"environment": one.digest})
            self._store.drop(one.name)
            total -= one.report.num_bytes if one.report is not None else 0
            total -= self._drop_cache(one.queue_id, caches, building)
        for queue_id in sorted(caches):
            if total > self._settings.cache_bytes:
                total -= self._drop_cache(queue_id, caches, building)
        if total <= self._settings.cache_bytes:
            return ""
        used, most = f"{total / 2**30:.1f} GiB", f"{self._settings.cache_bytes / 2**30:.1f} GiB"
        return f"The cache of environments is full: jobs use {used} of {most}."

    def _drop_cache(self, queue_id: int, caches: dict[int, int], building: Collection[int]) -> int:
        if queue_id in building or queue_id not in caches:
            return 0
        self._store.drop_cache(queue_id)
        return caches.pop(queue_id)
