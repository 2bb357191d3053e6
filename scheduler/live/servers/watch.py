"""The engine's memory of when each server was heard and told, by the scheduler's monotonic clock.

It may be lost without harm: a restarted scheduler grants every server and every launch one full period more.
"""

from dataclasses import dataclass, field

UNCONFIRMED_AFTER_S = 30.0
RESEND_AFTER_S = 1.0
REJECTION_EVENT_EVERY_S = 60.0


@dataclass(slots=True)
class ServerWatch:
    """Memory of one engine. All times are seconds of ``Clock.mono_s``.

    Attributes:
        heard: Server id to the time of its newest accepted report.
        sequences: Server id to the newest report sequence in the database, taken by any scheduler.
        missing: Attempt id to the time since which its server's reports lack it.
        unapplied: Server id to the time of the newest authentic report of it that we could not apply.
        sent: Server id to the time of the newest desired state sent.
        rejected: Server or attempt id to the time of the newest event about its rejected reports, if that was lately.
    """

    heard: dict[str, float] = field(default_factory=dict)
    sequences: dict[str, tuple[int, int]] = field(default_factory=dict)
    missing: dict[str, float] = field(default_factory=dict)
    unapplied: dict[str, float] = field(default_factory=dict)
    sent: dict[str, float] = field(default_factory=dict)
    rejected: dict[str, float] = field(default_factory=dict)

    def silent_s(self, server_id: str, *, stamp: tuple[int, int], now_s: float) -> float:
        """Return for how long a server has been silent; ``stamp`` is its newest (epoch, sequence) in the database."""
        if self.sequences.get(server_id) != stamp:
            self.sequences[server_id] = stamp
            self.heard[server_id] = now_s
        return now_s - self.heard.setdefault(server_id, now_s)

    def unapplied_lately(self, server_id: str, *, within_s: float, now_s: float) -> bool:
        """Return whether a server only seems silent: it reported, and we could not apply what it said."""
        return now_s - self.unapplied.get(server_id, float("-inf")) < within_s

    def may_resend(self, server_id: str, *, now_s: float) -> bool:
        """Return whether a message to a server may be repeated now."""
        return now_s - self.sent.get(server_id, -RESEND_AFTER_S) >= RESEND_AFTER_S

    def may_tell_rejection(self, reported_by: str, *, now_s: float) -> bool:
        """Return whether what a server or attempt reported may become an event now, and remember it if so."""
        lately = {one: at_s for one, at_s in self.rejected.items() if now_s - at_s < REJECTION_EVENT_EVERY_S}
        if reported_by in lately:
            return False
        self.rejected = lately | {reported_by: now_s}
        return True

    def note_missing(self, attempt_ids: set[str], *, of: set[str], now_s: float) -> None:
        """Remember which of the attempts ``of`` one server its newest report lacks."""
        for attempt_id in of - attempt_ids:
            self.missing.pop(attempt_id, None)
        for attempt_id in attempt_ids:
            self.missing.setdefault(attempt_id, now_s)

    def unconfirmed(self, *, now_s: float) -> list[str]:
        """Return the attempts missing for too long, and forget them."""
        late = sorted(pk for pk, since in self.missing.items() if now_s - since >= UNCONFIRMED_AFTER_S)
        for pk in late:
            del self.missing[pk]
        return late
