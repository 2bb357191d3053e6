"""Collects the commands of one event, in order, with a rate limit for repeated log lines. Pure."""

from agents.core.events import Command, Fields, Level, Note
from agents.protocol.ports import Clock

# Notes of one kind are written once in this time, so that a flood of bad messages does not flood the log.
NOTE_EVERY_S = 10.0


class Outbox:
    """Gathers commands in order."""

    def __init__(self, clock: Clock) -> None:
        self._commands: list[Command] = []
        self._clock = clock
        self._noted_at_s: dict[str, float] = {}

    def take(self) -> list[Command]:
        """Return what was gathered and begin anew."""
        taken, self._commands = self._commands, []
        return taken

    def add(self, command: Command) -> None:
        """Ask for something to be done."""
        self._commands.append(command)

    def note(self, level: Level, name: str, fields: Fields) -> None:
        """Ask for a line in the log."""
        self.add(Note(level=level, name=name, fields=fields))

    def note_seldom(self, level: Level, name: str, fields: Fields, *, kind: str = "") -> None:
        """Ask for a line in the log unless one of the same name and kind was written a short while ago."""
        now_s = self._clock.mono_s()
        if now_s - self._noted_at_s.get(f"{name} {kind}", -NOTE_EVERY_S) >= NOTE_EVERY_S:
            self._noted_at_s[f"{name} {kind}"] = now_s
            self.note(level, name, fields)
