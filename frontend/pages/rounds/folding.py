"""The list of rounds as it is read: those that changed nothing fold into one line, and a time leads to its round."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo

from django.db.models import QuerySet

from scheduler.models import Round
from scheduler.selectors.cluster.rows import RoundRow

LEAST_FOLDED = 3  # fewer stand as they are


@dataclass(slots=True, kw_only=True)
class RoundLine:
    """One line of the list: a round, or several, newest first, that changed nothing."""

    rounds: list[RoundRow] = field(default_factory=list)

    @property
    def is_folded(self) -> bool:
        """Return whether it stands for several."""
        return len(self.rounds) > 1


def changed_nothing(row: RoundRow) -> bool:
    """Return whether a round started and stopped nothing, and was not refused."""
    return not (row["num_launched"] or row["num_preempted"] or row["error"])


def folded(rows: Sequence[RoundRow], *, most: int) -> list[RoundLine]:
    """Return at most so many lines, newest first; rounds that changed nothing are one where they follow each other."""
    lines: list[RoundLine] = []
    for row in rows:
        if lines and changed_nothing(row) and changed_nothing(lines[-1].rounds[0]):
            lines[-1].rounds.append(row)
        else:
            lines.append(RoundLine(rounds=[row]))
    few = [line for line in lines if line.is_folded and len(line.rounds) < LEAST_FOLDED]
    return [
        one for line in lines for one in ([RoundLine(rounds=[row]) for row in line.rounds] if line in few else [line])
    ][:most]


def asked_time(text: str, zone: tzinfo) -> datetime | None:
    """Return the time in an address, as a field of date and time sends it: of the reader's zone unless it says one."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return at if at.tzinfo is not None else at.replace(tzinfo=zone)


def round_at(rounds: QuerySet[Round], at: datetime) -> int | None:
    """Return the number of the last round that had begun by a time; None before the first."""
    return rounds.filter(started_at__lte=at).order_by("-started_at").values_list("number", flat=True).first()
