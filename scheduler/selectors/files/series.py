"""Series of scalars in bounded memory: a long one is thinned evenly while it is read."""

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

MOST_POINTS = 500
MOST_TAGS = 100
TAG_LENGTH = 200


@dataclass(slots=True)
class Series:
    """Values over steps, in the order of the file.

    Attributes:
        seen: How many there were; of them one in ``stride`` is kept, and the newest.
        odd: How many were no finite number; they are not kept.
    """

    steps: "array[float]" = field(default_factory=lambda: array("d"))
    values: "array[float]" = field(default_factory=lambda: array("d"))
    seen: int = 0
    stride: int = 1
    odd: int = 0
    last: tuple[float, float] | None = None

    def add(self, step: float, value: float) -> None:
        """Take the next value."""
        if not (math.isfinite(step) and math.isfinite(value)):
            self.odd += 1
            return
        if self.seen % self.stride == 0:
            self.steps.append(step)
            self.values.append(value)
        self.seen += 1
        self.last = step, value
        if len(self.steps) > 2 * MOST_POINTS:
            self.steps, self.values, self.stride = self.steps[::2], self.values[::2], 2 * self.stride

    def copy(self) -> "Series":
        """Return what there is now, which stays as it is."""
        return replace(self, steps=self.steps[:], values=self.values[:])

    def points(self) -> tuple[Sequence[float], Sequence[float]]:
        """Return steps and values, the newest among them."""
        if self.last is None or (self.seen - 1) % self.stride == 0:
            return self.steps, self.values
        return [*self.steps, self.last[0]], [*self.values, self.last[1]]


@dataclass(slots=True)
class Tags:
    """The series of one file, by name; names beyond MOST_TAGS are only counted."""

    by_name: dict[str, Series] = field(default_factory=dict)
    left_out: bool = False

    def add(self, name: str, step: float, value: float) -> None:
        """Take a value of a series; half a pair of surrogates, which JSON may hold, is no letter of its name."""
        name = name.encode("utf-8", "replace").decode()
        found = self.by_name.get(name)
        if found is None:
            if len(self.by_name) >= MOST_TAGS or not name or len(name) > TAG_LENGTH:
                self.left_out = True
                return
            found = self.by_name[name] = Series()
        found.add(step, value)
