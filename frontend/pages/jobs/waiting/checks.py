"""The checks of a waiting job as one row: quota, limit, what it waits for, cores and memory, free GPUs, and what fails.

The selector tells more of them; what passes and says nothing of this job is left out here.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from frontend.components.formats import counted, number
from frontend.pages.jobs.subject import Subject
from scheduler.selectors.jobs.reason_rows import CheckRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Checks:
    """The row, and what a phone shows of it: the check that the reason fails, and how many pass."""

    rows: list[CheckRow]
    failing: CheckRow | None
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    """One place in the row: how its checks begin, what it is called there, and its words where there is none."""

    begins: tuple[str, ...]
    name: str = ""  # empty: as the check is called
    missing: str = ""

    def of(self, checks: Sequence[CheckRow]) -> CheckRow:
        """Return the first check that fails, else the first one."""
        same = [check for check in checks if check["name"].startswith(self.begins)]
        found = next((check for check in same if not check["ok"]), same[0] if same else None)
        if found is None:
            return {"name": self.name or self.begins[0].removesuffix(" of "), "ok": True, "text": self.missing}
        return {**found, "name": self.name or found["name"]}


_KINDS = (
    _Kind(begins=("Quota of ",)),
    _Kind(begins=("Limit of ",), missing="none is set"),
    _Kind(begins=("Jobs that it waits for",), name="Waits for"),
    _Kind(begins=("CPU and memory",), name="CPU, memory"),
    _Kind(begins=("GPUs in the cluster", "GPUs on "), name="Free GPUs"),
)


def checks_of(subject: Subject) -> Checks | None:
    """Return the row; None for a job that does not wait."""
    found = row_of(subject.explain["checks"])
    words = subject.words
    rows: list[CheckRow] = [{**check, "name": words(check["name"]), "text": words(check["text"])} for check in found]
    if not rows:
        return None
    # What is added to the five is the reason.
    failing = next((row for row in [*rows[len(_KINDS) :], *rows] if not row["ok"]), None)
    return Checks(rows=rows, failing=failing, title=checks_title(rows))


def row_of(checks: Sequence[CheckRow]) -> list[CheckRow]:
    """Return five checks in their order, each with what fails of its kind, and whatever else fails."""
    if not checks:
        return []
    taken = tuple(begin for kind in _KINDS for begin in kind.begins)
    return [kind.of(checks) for kind in _KINDS] + [
        check for check in checks if not check["ok"] and not check["name"].startswith(taken)
    ]


def checks_title(checks: Sequence[CheckRow]) -> str:
    """Return how many checks pass."""
    passing = sum(check["ok"] for check in checks)
    if passing == len(checks):
        return f"All {number(passing)} checks pass"
    return f"{number(passing)} of {counted(len(checks), 'check')} pass"
