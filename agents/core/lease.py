"""The lease of this server, without a clock common to agent and scheduler. Pure.

The time to live runs from *sending* the report that the scheduler acknowledged, on the machine's own monotonic clock.
The scheduler counts from receiving it and waits longer, so the agent's jobs always stop first.
"""

from collections import deque

# Reports remembered while none is acknowledged: far more than any lease lasts.
_MOST_SENT = 20_000
_LONGEST_MARGIN_S = 5.0


def lease_margin_s(ttl_s: float) -> float:
    """Return how long before the end of a lease a job is asked for a checkpoint, seconds.

    Renewals come every quarter of the time to live, so two of them must be missing before a job notices.
    """
    return min(_LONGEST_MARGIN_S, ttl_s / 4)


class LeaseBook:
    """Which report was sent when, and until when the lease runs.

    Attributes:
        until_s: End of the lease on the monotonic clock; 0 when none was ever granted to this process.
        ttl_s: Newest time to live that the scheduler named, seconds.
    """

    def __init__(self) -> None:
        self.until_s = 0.0
        self.ttl_s = 0.0
        self._sent: deque[tuple[int, float]] = deque(maxlen=_MOST_SENT)

    def sent(self, sequence: int, at_s: float) -> None:
        """Remember a report that is about to be sent."""
        self._sent.append((sequence, at_s))

    def acknowledge(self, sequence: int, *, ttl_s: float) -> bool:
        """Renew the lease by an acknowledged report; return whether this process sent that report.

        A report of an earlier run grants nothing, as its time of sending is lost. An older acknowledgement never
        shortens the lease.
        """
        self.ttl_s = ttl_s
        while self._sent and self._sent[0][0] < sequence:
            self._sent.popleft()
        if not self._sent or self._sent[0][0] != sequence:
            return False
        self.until_s = max(self.until_s, self._sent[0][1] + ttl_s)
        return True
