"""Checkpoints on disk: ``step-<step>-<hash of the content>.pt`` or ``.json``, whole or not there.

Decides how one is written (temporary file, fsync, rename, fsync of the directory), how many stay, and which one a job
starts from: a file whose content does not fit the hash in its name is never used. The script decides its content.
"""

import hashlib
import importlib
import io
import json
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agents.runtime.errors import StateUnsavable
from agents.runtime.reports import say

KEEP = 2
FORMAT = 1
NAME = re.compile(r"^step-(\d{6,18})-([0-9a-f]{16})\.(pt|json)$")

State = dict[str, Any]  # what the script gives and gets back: its own keys and values, opaque to the runtime


def _hasher() -> "hashlib.blake2b":
    return hashlib.blake2b(digest_size=8)


class _HashingFile:
    """Hashes what is written through it and keeps the first error, which torch would replace by one of its own."""

    def __init__(self, file: io.BufferedWriter) -> None:
        self._file = file
        self._hash = _hasher()
        self.error: OSError | None = None

    def write(self, data: bytes) -> int:
        self._hash.update(data)
        try:
            return self._file.write(data)
        except OSError as error:
            self.error = self.error or error
            raise

    def flush(self) -> None:
        self._file.flush()

    def digest(self) -> str:
        return self._hash.hexdigest()


def checkpoint_save(directory: Path, *, step: int, state: Mapping[str, Any]) -> str:
    """Write a checkpoint, delete those older than the newest two, and return its file name.

    Raises:
        OSError: The disk would not take it. The older ones are untouched.
        StateUnsavable: The state could not be loaded again.
    """
    content = {"format": FORMAT, "step": step, "state": dict(state)}
    text = _exact_json(content)
    suffix = "pt" if text is None else "json"
    directory.mkdir(exist_ok=True)
    temporary = directory / f".step-{step:06d}.{suffix}.tmp"
    try:
        digest = _write(temporary, content if text is None else text)
        if text is None:
            _check_loadable(temporary)
        name = f"step-{step:06d}-{digest}.{suffix}"
        os.replace(temporary, directory / name)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _fsync_directory(directory)
    for old in _newest_first(directory)[KEEP:]:
        old.unlink(missing_ok=True)
    return name


def checkpoint_load(named: Path) -> tuple[Path, int, State] | None:
    """Return file, step and state of the named checkpoint, or of the newest whole one beside it if it is torn or gone.

    Returns:
        None when no whole checkpoint is left.
    """
    others = [path for path in _newest_first(named.parent) if path.name != named.name]
    for path in [named, *others]:
        if not _is_whole(path):
            say(f"checkpoint {path.name} is missing or damaged, it is not used")
            continue
        content = _read(path)
        return path, int(content["step"]), content["state"]
    return None


def checkpoint_adopt(source: Path, directory: Path) -> bool:
    """Link the checkpoint that an attempt starts from into its own directory, as the one before its first own.

    Returns:
        Whether it lies there now. Where links are impossible the first own checkpoint has no older one to fall back on.
    """
    try:
        directory.mkdir(exist_ok=True)
        os.link(source, directory / source.name)
    except FileExistsError:
        return True
    except OSError:
        return False
    return True


def _write(path: Path, content: bytes | Mapping[str, Any]) -> str:
    with open(path, "wb") as file:
        target = _HashingFile(file)
        if isinstance(content, bytes):
            target.write(content)
        else:
            try:
                importlib.import_module("torch").save(content, target)
            except Exception:
                if target.error is not None:
                    raise target.error from None
                raise
        file.flush()
        os.fsync(file.fileno())
    return target.digest()


def _exact_json(content: Mapping[str, Any]) -> bytes | None:
    """Return the content as JSON if reading it gives the same back; None if it takes torch."""
    try:
        text = json.dumps(content, allow_nan=False)
        if json.loads(text) == content:
            return text.encode()
        reason = "a tuple, or a key that is no string"
    except (TypeError, ValueError, RecursionError) as error:
        reason = str(error)
    if "torch" not in sys.modules:  # then nothing in it can be a tensor
        raise StateUnsavable(f"without torch a checkpoint holds only what JSON keeps as it is, not: {reason}")
    return None


def _check_loadable(path: Path) -> None:
    """Find out now, not at the first preemption, that the state holds more than tensors and plain values."""
    try:
        importlib.import_module("torch").load(path, map_location="cpu", weights_only=True, mmap=True)
    except Exception as error:  # torch names no narrower one for "refused by weights_only"
        raise StateUnsavable(f"a checkpoint holds tensors and plain values only: {error}") from None


def _read(path: Path) -> dict[str, Any]:
    if path.suffix == ".json":
        content = json.loads(path.read_bytes())
    else:
        content = importlib.import_module("torch").load(path, map_location="cpu", weights_only=True)
    if content.get("format") != FORMAT:
        raise StateUnsavable(f"{path.name} has format {content.get('format')}, this runtime reads {FORMAT}")
    return dict(content)


def _is_whole(path: Path) -> bool:
    match = NAME.match(path.name)
    if match is None:
        return False
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, _hasher).hexdigest() == match[2]
    except OSError:
        return False


def _newest_first(directory: Path) -> list[Path]:
    try:
        found = [(match, path) for path in directory.iterdir() if (match := NAME.match(path.name))]
    except OSError:
        return []
    return [path for _, path in sorted(found, key=lambda item: (int(item[0][1]), item[1].name), reverse=True)]


def _fsync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
