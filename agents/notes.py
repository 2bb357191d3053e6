"""What the agent's heart wants written to the log, with a limit on lines that a flood would repeat. Pure."""

from agents.events import Command, Fields, Level, Note
from agents.ports import Clock

# A flood of bad messages makes one line per kind in so many seconds.
NOTE_EVERY_S = 10.0


class Notes:
    """Adds notes to the commands of the present event.

    Attributes:
        out: The commands that notes are added to.
    """

    def __init__(self, clock: Clock) -> None:
        self.out: list[Command] = []
        self._clock = clock
        self._noted_at_s: dict[str, float] = {}

    def add(self, level: Level, name: str, fields: Fields) -> None:
        """Add a note."""
        self.out.append(Note(level=level, name=name, fields=fields))

    def add_seldom(self, level: Level, name: str, fields: Fields, *, kind: str = "") -> None:
        """Add a note unless one of the same name and kind was added a short while ago."""
        now_s = self._clock.mono_s()
        if now_s - self._noted_at_s.get(f"{name} {kind}", -NOTE_EVERY_S) >= NOTE_EVERY_S:
            self._noted_at_s[f"{name} {kind}"] = now_s
            self.add(level, name, fields)
