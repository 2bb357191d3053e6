"""Give jobs a way to what they need below folders that their users may not pass, such as a Python below ``/root``.

The job gets a mount namespace of its own. In it each such folder is an empty one that holds what jobs need and nothing
else, so the rest of it is not even there. Root alone can do that, and in most containers it cannot.

Between fork and exec too, so the standard library only. Source: Linux, mount_namespaces(7) and mount(2).
"""

import ctypes
import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping

# Where supervisors are told of it.
JOB_PASSAGE = "CLUSTERWEB_JOB_PASSAGE"

_CLONE_NEWNS = 0x00020000
_RDONLY, _NOSUID, _NODEV, _REMOUNT, _BIND, _REC, _SLAVE = 1, 2, 4, 32, 4096, 16384, 1 << 19
_HIDDEN_MODE = 0o755
_MOST_LINKS = 40

_libc = ctypes.CDLL(None, use_errno=True)

# By closed folder: the paths shown in it, each with its target if it is a link, else with an empty text.
Passage = Mapping[str, Mapping[str, str]]


def passage_to(needed: Iterable[object]) -> Passage:
    """Return what has to be shown so that every user can reach these paths; empty where nothing is in the way."""
    places = dict(place for path in needed for place in _places(str(path)))
    shown: dict[str, dict[str, str]] = {}
    for place, target in sorted(places.items()):
        closed = _closed_above(place)
        # A path inside a folder that is shown needs no entry.
        if closed and not any(places.get(above) == "" for above in _above(place)):
            shown.setdefault(closed, {})[place] = target
    return shown


def passage_told(passage: Passage) -> dict[str, str]:
    """Return the variable for supervisors; nothing where there is nothing to open."""
    return {JOB_PASSAGE: json.dumps(passage)} if passage else {}


def passage_of(environ: Mapping[str, str]) -> Passage:
    """Return what the agent told this supervisor."""
    told: Passage = json.loads(environ.get(JOB_PASSAGE, "{}"))
    return told


def open_passage(passage: Passage) -> None:
    """Give this process, which has one thread, and all that it starts the namespace. Raises OSError."""
    _call(_libc.unshare(_CLONE_NEWNS), "unshare")
    # Later mounts of the machine appear in here; mounts made here do not appear outside.
    _mount(None, "/", None, _REC | _SLAVE)
    before = os.umask(0o022)
    try:
        for closed, entries in passage.items():
            _show(closed, entries)
    finally:
        os.umask(before)


def _show(closed: str, entries: Mapping[str, str]) -> None:
    held = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path, target in entries.items() if not target}
    try:
        _mount("tmpfs", closed, "tmpfs", _NOSUID | _NODEV, f"mode={_HIDDEN_MODE:o}")
        for path in sorted(entries):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            if path not in held:
                os.symlink(entries[path], path)
                continue
            if stat.S_ISDIR(os.fstat(held[path]).st_mode):
                os.makedirs(path, exist_ok=True)
            else:
                os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
            _mount(f"/proc/self/fd/{held[path]}", path, None, _BIND | _REC)
        _mount(None, closed, None, _REMOUNT | _BIND | _RDONLY | _NOSUID | _NODEV)
    finally:
        for descriptor in held.values():
            os.close(descriptor)


def _places(path: str) -> Iterator[tuple[str, str]]:
    """Yield the links on the way with their targets, then the path without links; nothing if it is not there."""
    found, current, left = [], "/", [part for part in path.split("/") if part]
    while left:
        here = os.path.normpath(os.path.join(current, left.pop(0)))
        try:
            is_link = stat.S_ISLNK(os.lstat(here).st_mode)
        except OSError:
            return
        if not is_link:
            current = here
            continue
        target = os.readlink(here)
        found.append((here, target))
        if len(found) > _MOST_LINKS:
            return
        current = "/" if target.startswith("/") else current
        left = [part for part in target.split("/") if part] + left
    yield from found
    yield current, ""


def _closed_above(path: str) -> str:
    """Return the first folder above a path without links that others may not pass; empty for none."""
    return next((folder for folder in _above(path) if not os.lstat(folder).st_mode & stat.S_IXOTH), "")


def _above(path: str) -> list[str]:
    """Return the folders above a path, the outermost first, without the root."""
    parts = path.split("/")[1:-1]
    return ["/" + "/".join(parts[:count]) for count in range(1, len(parts) + 1)]


def _mount(source: str | None, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    texts = [None if text is None else os.fsencode(text) for text in (source, target, kind, options)]
    _call(_libc.mount(texts[0], texts[1], texts[2], ctypes.c_ulong(flags), texts[3]), "mount")


def _call(result: int, name: str) -> None:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), name)
