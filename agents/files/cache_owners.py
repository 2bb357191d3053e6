"""Accounting of a server's dataset caches: which owner (attempt) pays for which item, as files on disk.

    <cache>/<dataset>/items/<item>              one file an item, read by all
    <cache>/<dataset>/owners/<owner>/<item>     a hard link to it: the owner pays
    <cache>/<dataset>/owners/<owner>/.account   budget, use and counts of the owner
    <cache>/<dataset>/owners/<owner>/.alive     locked while the owner's main process lives

All counts are on disk, so a process that dies leaves none that is wrong. Used by jobs and by supervisors.
"""

import fcntl
import os
import struct
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

FIELDS = (
    "budget",
    "used",
    "hits",
    "misses",
    "hit_bytes",
    "hit_ns",
    "miss_bytes",
    "miss_ns",
    "decode_ns",
)
ACCOUNT = struct.Struct(f"<{len(FIELDS)}q")
ACCOUNT_FILE, ALIVE_FILE = ".account", ".alive"


def cache_folder(server_id: str, *, uid: int | None = None, queue_id: int = 0) -> Path:
    """Return the cache directory of a server for one queue.

    Args:
        server_id: The server.
        uid: User of the queue's jobs, whose folder is in memory where the machine has such a place. None where jobs of
            all queues run as our user: shared memory is open to each of them, and so it is a folder of the disk.
        queue_id: The queue, where it has no user.
    """
    memory = Path("/dev/shm")  # noqa: S108  # the folder below it is the user's own
    if uid is None:
        # Without links: a path with one opens nothing to a confined job.
        return Path(
            os.path.realpath(tempfile.gettempdir()), f"clusterweb-{os.getuid()}", server_id, f"queue-{queue_id}"
        )
    base = memory if memory.is_dir() else Path(tempfile.gettempdir())
    return base / f"clusterweb-{uid}" / server_id


def owner_bytes(cache: Path, owner: str) -> int:
    """Return what one owner pays for in all datasets of a server's cache."""
    total = 0
    for account in _accounts(cache, owner):
        with suppress(OSError, struct.error):
            total += max(0, ACCOUNT.unpack(account.read_bytes())[1])
    return total


def _accounts(cache: Path, owner: str) -> list[Path]:
    try:
        return [dataset / "owners" / owner / ACCOUNT_FILE for dataset in cache.iterdir()]
    except OSError:
        return []


def sweep(cache: Path) -> None:
    """Hand over the items of dead owners in all datasets to owners with room; delete the rest."""
    for dataset in _folders(cache):
        sweep_dataset(dataset)


def sweep_apart(cache: Path, *, confine: Callable[[], None]) -> None:
    """Sweep in a child process with the rights of the jobs only, as they could have tampered with the files.

    ``confine`` keeps it inside the cache where the jobs are confined: a folder may be a link to another place by now.
    """
    try:
        status = os.stat(cache, follow_symlinks=False)
    except OSError:
        return
    pid = os.fork()
    if pid == 0:
        try:
            if os.geteuid() == 0 and status.st_uid != 0:
                os.setgroups([])
                os.setgid(status.st_gid)
                os.setuid(status.st_uid)
            confine()
            sweep(cache)
        finally:
            os._exit(0)
    os.waitpid(pid, 0)


def _folders(path: Path) -> list[Path]:
    try:
        return [Path(entry.path) for entry in os.scandir(path) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def sweep_dataset(dataset: Path, *, but: Path | None = None) -> None:
    """Hand over the items of owners of a dataset whose main process is gone."""
    for owner in _folders(dataset / "owners"):
        if owner == but or not (owner / ALIVE_FILE).exists():
            continue
        held = hold(owner / ALIVE_FILE)
        if held is not None:
            hand_over(dataset, owner)
            _drop_unpaid(dataset)
            os.close(held)


def _drop_unpaid(dataset: Path) -> None:
    """Delete items without an owner: theirs died between taking them in and paying."""
    for item in os.scandir(dataset / "items"):
        if item.stat().st_nlink == 1:
            Path(item.path).unlink(missing_ok=True)


def hand_over(dataset: Path, leaving: Path) -> None:
    """Hand over the items of a leaving owner to owners with room; delete the rest."""
    heirs = [owner for owner in _folders(dataset / "owners") if owner != leaving and (owner / ACCOUNT_FILE).exists()]
    for entry in links(leaving):
        if not any(_inherit(heir, entry) for heir in heirs):
            drop(dataset, leaving, entry.name)
    for entry in os.scandir(leaving):
        Path(entry.path).unlink(missing_ok=True)
    with suppress(OSError):  # not empty: a worker of the job has just taken an item in
        leaving.rmdir()


def drop(dataset: Path, owner: Path, name: str) -> None:
    """Delete an item and its owner's link."""
    (dataset / "items" / name).unlink(missing_ok=True)
    (owner / name).unlink(missing_ok=True)


def links(owner: Path) -> "list[os.DirEntry[str]]":
    """Return the items that an owner pays for."""
    return [entry for entry in os.scandir(owner) if not entry.name.startswith(".")]


def _inherit(heir: Path, entry: "os.DirEntry[str]") -> bool:
    """Move an item to another owner, if that one's budget has room."""
    size = entry.stat().st_size
    try:
        with (heir / ACCOUNT_FILE).open("r+b", buffering=0) as file, lock(file.fileno()):
            budget, used, *counts = ACCOUNT.unpack(file.read(ACCOUNT.size))
            if used + size > budget:
                return False
            os.rename(entry.path, heir / entry.name)
            file.seek(0)
            file.write(ACCOUNT.pack(budget, used + size, *counts))
    except (OSError, struct.error):
        return False  # the other owner is leaving as well
    return True


@contextmanager
def lock(file: int) -> Iterator[None]:
    """Keep every other process out that locks the same file."""
    fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)


def hold(path: Path) -> int | None:
    """Return a file that is locked while this process lives; None when another process holds it."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return None
    return file
