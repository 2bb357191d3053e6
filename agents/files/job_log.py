"""The log of one attempt: segments of contiguous bytes, the oldest dropped. Writing never blocks the job.

A segment is called ``log.<offset of its first byte, 20 digits>``. Bytes that come too fast or find no room on the disk
are dropped, and a line in the log says how many.
"""

import os
import time
from collections import deque

SEGMENT_BYTES = 8 * 1024 * 1024
SMALLEST_SEGMENT_BYTES = 64 * 1024
# What a job may write at once, and for each second on average.
BURST_BYTES = 64 * 1024 * 1024
BYTES_PER_S = 16 * 1024 * 1024


def segment_name(offset: int) -> str:
    """Return the name of the segment that begins at ``offset``."""
    return f"log.{offset:020d}"


class JobLog:
    """Writer of the log.

    Attributes:
        num_bytes: Written so far, those rotated away included.
        dropped_bytes: Thrown away so far.
        is_disk_full: The last write found no room.
    """

    def __init__(self, dir_fd: int, *, most_bytes: int) -> None:
        self.num_bytes = 0
        self.dropped_bytes = 0
        self.is_disk_full = False
        self._dir_fd = dir_fd
        self._most_bytes = max(most_bytes, 2 * SMALLEST_SEGMENT_BYTES)
        self._segment_bytes = min(SEGMENT_BYTES, max(SMALLEST_SEGMENT_BYTES, self._most_bytes // 4))
        self._segments: deque[tuple[int, int]] = deque()  # offset, bytes
        self._fd = -1
        self._unsaid_bytes = 0
        self._budget = float(BURST_BYTES)
        self._budget_at_s = time.monotonic()

    def move(self, dir_fd: int) -> None:
        """Go on in another directory, when the first was deleted."""
        self._dir_fd = dir_fd
        self._segments.clear()
        self.close()

    def write(self, data: bytes) -> None:
        """Add output of the job."""
        allowed = self._allowed(len(data))
        if allowed and self._unsaid_bytes:
            marker = f"\n[clusterweb: {self._unsaid_bytes} bytes dropped]\n".encode()
            if not self._append(marker):
                self._drop(len(data))
                return
            self._unsaid_bytes = 0
        kept = data[:allowed]
        if kept and not self._append(kept):
            allowed = 0
        self._drop(len(data) - allowed)

    def check(self) -> None:
        """Begin a new segment if the job deleted the present one, so that what follows can be read."""
        if self._fd >= 0 and os.fstat(self._fd).st_nlink == 0:
            self.close()

    def close(self) -> None:
        """Close the present segment; the next write begins another."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _allowed(self, wanted: int) -> int:
        now_s = time.monotonic()
        self._budget = min(float(BURST_BYTES), self._budget + (now_s - self._budget_at_s) * BYTES_PER_S)
        self._budget_at_s = now_s
        allowed = min(wanted, int(self._budget))
        self._budget -= allowed
        return allowed

    def _drop(self, num_bytes: int) -> None:
        self.dropped_bytes += num_bytes
        self._unsaid_bytes += num_bytes

    def _append(self, data: bytes) -> bool:
        """Write all of it, over segment ends; False when the disk took less, which then counts as not written."""
        view = memoryview(data)
        try:
            while view:
                if self._fd < 0 or self._segments[-1][1] >= self._segment_bytes:
                    self._next_segment()
                offset, held = self._segments[-1]
                written = os.write(self._fd, view[: self._segment_bytes - held])
                self._segments[-1] = (offset, held + written)
                self.num_bytes += written
                view = view[written:]
        except OSError:
            self.is_disk_full = True
            return False
        self.is_disk_full = False
        return True

    def _next_segment(self) -> None:
        self.close()
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        self._fd = os.open(segment_name(self.num_bytes), flags, 0o600, dir_fd=self._dir_fd)
        self._segments.append((self.num_bytes, 0))
        while len(self._segments) > 1 and self._kept_bytes() > self._most_bytes - self._segment_bytes:
            offset, _ = self._segments.popleft()
            try:
                os.unlink(segment_name(offset), dir_fd=self._dir_fd)
            except OSError:
                continue  # the job deleted it first

    def _kept_bytes(self) -> int:
        return sum(held for _, held in self._segments)
