"""Which attempt holds a job's directory: the latest that began in it. Pure.

Each attempt leaves a mark beside the directory before it starts, and looks at the marks of others after that; a later
one is never taken away. So of two attempts that begin at once the earlier one sees it, at the latest while it runs.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

_MARK = re.compile(r"attempt-([0-9]{1,18})-([0-9]{1,18})")


@dataclass(frozen=True, slots=True, order=True)
class Hold:
    """The place of an attempt among those of its job, the later the greater.

    Attributes:
        epoch: Of the control plane's database: a restored backup counts attempts anew.
        number: Of the attempt within its job; 0 where the scheduler does not say it, and then nothing is held.
    """

    epoch: int
    number: int

    @property
    def mark(self) -> str:
        """Return the name of its mark."""
        return f"attempt-{self.epoch}-{self.number}"

    def is_over(self, names: Iterable[str]) -> bool:
        """Return whether a later attempt has begun, by the names that lie beside the directory."""
        return self.number > 0 and any(other > self for other in holds(names))

    def earlier(self, names: Iterable[str]) -> list[str]:
        """Return the marks of earlier attempts."""
        return [other.mark for other in holds(names) if other < self]


def holds(names: Iterable[str]) -> list[Hold]:
    """Return the holds whose marks are among these names."""
    found = (_MARK.fullmatch(name) for name in names)
    return [Hold(int(match[1]), int(match[2])) for match in found if match is not None]
