"""Read new lines of a job's report file. The job owns the file and may do anything to it."""

import os
import stat

from agents.core.records import WrittenLine

_READ_BYTES = 256 * 1024
_LONGEST_LINE_BYTES = 16 * 1024
_SHOWN_BYTES = 200  # of a line that cannot be used
# Further behind than this, what lies between is skipped: each report says all there is to say.
_FURTHEST_BEHIND_BYTES = 4 * 1024 * 1024


class ReportTail:
    """Follows one file under a directory descriptor.

    Attributes:
        unusable: The first line that was left out, because a value in it is out of range or it is none of ours.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._file = (0, 0)  # device and inode
        self._offset = 0
        self._rest = b""
        self.unusable = b""

    def read(self, dir_fd: int) -> list[WrittenLine]:
        """Return the lines that came since the last call; a file that was replaced or cut is read from its start."""
        try:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            descriptor = os.open(self._name, flags, dir_fd=dir_fd)
        except OSError:
            return []
        try:
            data = self._new_bytes(descriptor)
        except OSError:
            return []
        finally:
            os.close(descriptor)
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > _LONGEST_LINE_BYTES:
            self._rest = b""
        return [parsed for line in lines if (parsed := self._parsed(line)) is not None]

    def _parsed(self, line: bytes) -> WrittenLine | None:
        parsed = WrittenLine.parse(line) if len(line) <= _LONGEST_LINE_BYTES else None
        if parsed is None and not self.unusable:
            self.unusable = line[:_SHOWN_BYTES]
        return parsed

    def _new_bytes(self, descriptor: int) -> bytes:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return b""
        file = (status.st_dev, status.st_ino)
        if file != self._file or status.st_size < self._offset:
            self._file, self._offset, self._rest = file, 0, b""
        if status.st_size - self._offset > _FURTHEST_BEHIND_BYTES:
            self._offset, self._rest = status.st_size - _READ_BYTES, b""
        data = os.pread(descriptor, _READ_BYTES, self._offset)
        self._offset += len(data)
        return data
