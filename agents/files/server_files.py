"""The real Files port: attempt directories under the shared directory, the agent's memory under its state directory."""

import os
from pathlib import Path

from agents.files.atomic import create_at, open_directory, read_at, write_at
from agents.protocol.errors import Malformed
from agents.protocol.fields import FILE_NAME, ULID

OWN_FILE = "agent.json"


class AttemptFiles:
    """Files of attempts by id and plain name."""

    def __init__(self, *, attempts_dir: Path, state_dir: Path) -> None:
        attempts_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._attempts_fd = open_directory(os.fspath(attempts_dir))
        self._state_fd = open_directory(os.fspath(state_dir))

    def close(self) -> None:
        """Give the descriptors back."""
        os.close(self._attempts_fd)
        os.close(self._state_fd)

    def read(self, attempt_id: str, name: str) -> bytes | None:
        """Return the content, or None when there is no such file or it cannot be read."""
        try:
            descriptor = self._open(attempt_id, name)
        except OSError:
            return None
        try:
            return read_at(descriptor, name)
        finally:
            os.close(descriptor)

    def write(self, attempt_id: str, name: str, content: bytes) -> None:
        """Replace the file atomically and durably; the directory is made when it is missing."""
        descriptor = self._open_or_make(attempt_id, name)
        try:
            write_at(descriptor, name, content, durable=True)
        finally:
            os.close(descriptor)

    def create(self, attempt_id: str, name: str, content: bytes) -> bool:
        """Make the file; False when there is one already. The directory is made when it is missing."""
        descriptor = self._open_or_make(attempt_id, name)
        try:
            return create_at(descriptor, name, content)
        finally:
            os.close(descriptor)

    def attempts(self) -> list[str]:
        """Return the ids of attempts that have a directory, sorted."""
        return sorted(name for name in os.listdir(self._attempts_fd) if ULID.fullmatch(name))

    def read_own(self) -> bytes | None:
        """Return what the agent of this server wrote last."""
        return read_at(self._state_fd, OWN_FILE)

    def write_own(self, content: bytes) -> None:
        """Replace what the agent of this server keeps."""
        write_at(self._state_fd, OWN_FILE, content, durable=True)

    def _open(self, attempt_id: str, name: str) -> int:
        if not ULID.fullmatch(attempt_id) or not FILE_NAME.fullmatch(name):
            raise Malformed(f"{attempt_id[:40]}/{name[:80]}")
        return open_directory(attempt_id, dir_fd=self._attempts_fd)

    def _open_or_make(self, attempt_id: str, name: str) -> int:
        try:
            return self._open(attempt_id, name)
        except FileNotFoundError:
            os.mkdir(attempt_id, 0o700, dir_fd=self._attempts_fd)
            os.fsync(self._attempts_fd)
            return self._open(attempt_id, name)
