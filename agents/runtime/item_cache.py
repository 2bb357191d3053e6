"""Raw items of a dataset in shared memory: one copy a server, filled until the budget is used, never evicted (MinIO).

All processes of a server that read the same dataset share a directory. An item is one file, and a hard link to it in
the folder of the owner that pays for it; so what somebody pays is on the disk, and a process that dies leaves no
count that is wrong. When an owner leaves, what it paid for goes to others with room in their budgets, else away.

Source: Mohan et al., "Analyzing and mitigating data stalls in DNN training", VLDB 2021. Differs: the cache is shared by
jobs of one server, each charged for what it brought in.
"""

import fcntl
import hashlib
import mmap
import os
import struct
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from agents.runtime.errors import RuntimeMisuse

# budget, used, hits, misses: bytes and counts shared by the processes of one owner.
_ACCOUNT = struct.Struct("<4q")


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheFigures:
    """What an owner has of the cache.

    Attributes:
        budget_bytes: Most it may pay for.
        used_bytes: What it pays for.
        hits: Reads of its processes that found the item.
        misses: Reads that did not.
    """

    budget_bytes: int
    used_bytes: int
    hits: int
    misses: int


class ItemCache:
    """The cache of one dataset as one owner (a job on this server) sees it.

    Open it in the main process of the job; workers of a DataLoader that are forked or spawned later open their own with
    the same owner. The owner leaves with ``leave``, or when its main process is gone and somebody else looks.
    """

    def __init__(self, directory: Path, *, owner: str, budget_bytes: int | None = None) -> None:
        """Join the cache.

        Args:
            directory: Folder of the dataset in shared memory, the same for all jobs that read it.
            owner: Name of the job, unique on the server.
            budget_bytes: Bytes it may pay for; None to use what its main process has set.
        """
        self._items = directory / "items"
        self._mine = directory / "owners" / owner
        self._owners = directory / "owners"
        self._owner = owner
        for folder in (self._items, self._mine):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = os.open(self._mine / ".account", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if os.fstat(file).st_size < _ACCOUNT.size:
            os.ftruncate(file, _ACCOUNT.size)
        self._account = mmap.mmap(file, _ACCOUNT.size)
        self._lock_file = file
        self._threads = threading.Lock()
        self._alive: int | None = None
        if budget_bytes is not None:
            self._alive = _hold(self._mine / ".alive")
            if self._alive is None:
                raise RuntimeMisuse(f"another process is already the main process of {owner} in {directory}")
            self.resize(budget_bytes)
            self._bury_the_dead()

    def get(self, key: str, read: Callable[[], bytes]) -> bytes:
        """Return the raw item ``key``: from the cache, else by ``read``; keep it while the budget has room."""
        name = hashlib.sha256(key.encode()).hexdigest()
        try:
            content = (self._items / name).read_bytes()
        except FileNotFoundError:
            content = read()
            self._admit(name, content)
            return content
        with self._locked():
            self._count(hits=1)
        return content

    def figures(self) -> CacheFigures:
        """Return budget, use, hits and misses."""
        budget, used, hits, misses = _ACCOUNT.unpack_from(self._account)
        return CacheFigures(budget_bytes=budget, used_bytes=used, hits=hits, misses=misses)

    def resize(self, budget_bytes: int) -> int:
        """Set the budget; return the bytes freed. What does not fit any more goes at once, highest hash first."""
        with self._locked():
            _, used, hits, misses = _ACCOUNT.unpack_from(self._account)
            paid = {entry.name: entry.stat().st_size for entry in _links(self._mine)}
            used = sum(paid.values())
            freed = 0
            for name in sorted(paid, reverse=True):
                if used - freed <= budget_bytes:
                    break
                self._drop(self._mine, name)
                freed += paid[name]
            _ACCOUNT.pack_into(self._account, 0, budget_bytes, used - freed, hits, misses)
        return freed

    def leave(self) -> None:
        """Stop paying: items go to other owners with room, else away."""
        self._hand_over(self._mine)
        self.close()

    def close(self) -> None:
        """Give files back; the owner goes on paying while its main process lives."""
        self._account.close()
        os.close(self._lock_file)
        if self._alive is not None:
            os.close(self._alive)
            self._alive = None

    def _admit(self, name: str, content: bytes) -> None:
        with self._locked():
            budget, used, _, _ = _ACCOUNT.unpack_from(self._account)
            fits = used + len(content) <= budget
            self._count(misses=1)
            if not fits:
                return
            partial = self._mine / f".{uuid.uuid4().hex}"
            try:
                partial.write_bytes(content)
                os.link(partial, self._items / name)
                partial.rename(self._mine / name)
            except FileExistsError:
                return  # somebody else was faster, and pays
            except OSError:
                return  # the memory of the server is full; the item is read again next time
            finally:
                partial.unlink(missing_ok=True)
            self._count(used=len(content))

    def _count(self, *, used: int = 0, hits: int = 0, misses: int = 0) -> None:
        before = _ACCOUNT.unpack_from(self._account)
        _ACCOUNT.pack_into(self._account, 0, before[0], before[1] + used, before[2] + hits, before[3] + misses)

    def _drop(self, owner: Path, name: str) -> None:
        (self._items / name).unlink(missing_ok=True)
        (owner / name).unlink(missing_ok=True)

    def _bury_the_dead(self) -> None:
        """Take what owners left behind whose main process is gone."""
        for folder in self._owners.iterdir():
            if folder == self._mine or not (folder / ".alive").exists():
                continue
            held = _hold(folder / ".alive")
            if held is not None:
                self._hand_over(folder)
                os.close(held)

    def _hand_over(self, leaving: Path) -> None:
        """Let other owners with room pay for the items of one that leaves; drop the rest."""
        heirs = [folder for folder in self._owners.iterdir() if folder != leaving and (folder / ".account").exists()]
        for entry in _links(leaving):
            if not any(_inherit(heir, entry) for heir in heirs):
                self._drop(leaving, entry.name)
        for name in (".account", ".alive"):
            (leaving / name).unlink(missing_ok=True)
        with suppress(OSError):  # a worker of the job admits its last item
            leaving.rmdir()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep the other processes and threads of this owner out."""
        with self._threads, _lock(self._lock_file):
            yield


@contextmanager
def _lock(file: int) -> Iterator[None]:
    fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)


def _links(owner: Path) -> list[os.DirEntry[str]]:
    """Return what an owner pays for."""
    return [entry for entry in os.scandir(owner) if not entry.name.startswith(".")]


def _inherit(heir: Path, entry: "os.DirEntry[str]") -> bool:
    """Let an owner pay for an item of another, if its budget has room."""
    size = entry.stat().st_size
    with (heir / ".account").open("r+b", buffering=0) as file, _lock(file.fileno()):
        budget, used, hits, misses = _ACCOUNT.unpack(file.read(_ACCOUNT.size))
        if used + size > budget:
            return False
        os.rename(entry.path, heir / entry.name)
        file.seek(0)
        file.write(_ACCOUNT.pack(budget, used + size, hits, misses))
    return True


def _hold(path: Path) -> int | None:
    """Return a file that is locked while this process lives; None when another process holds it."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return None
    return file
