"""The table of moves in docs/lifecycle.md is the one of the code."""

import re

from clusterweb.config.env import BASE_DIR
from scheduler.core.model.lifecycle import TERMINAL, TRANSITIONS, JobState

PAGE = (BASE_DIR / "docs" / "lifecycle.md").read_text()
MOVES = {(before, after) for before, reached in TRANSITIONS.items() for after in reached}
ENDS = "*ends*"


def states(cell: str) -> set[JobState]:
    """Return the states that a cell of the table names."""
    named = {word.strip() for word in cell.split(",")}
    return {JobState(word) for word in named - {ENDS}} | (set(TERMINAL) if ENDS in named else set())


def test_the_table_has_each_move_once() -> None:
    """A move that is added to the code is told, and none is told that the code refuses."""
    table = PAGE.partition("| from | to | when |")[2].partition("\n\n")[0]
    rows = [line.split("|")[1:3] for line in table.splitlines() if line and not line.startswith("|---")]
    told = [(JobState(before.strip()), after) for before, reached in rows for after in states(reached)]

    assert set(told) == MOVES
    assert len(told) == len(MOVES)


def test_the_diagram_has_moves_of_the_table_alone() -> None:
    """It shows the main ones."""
    drawn = {(JobState(a), JobState(b)) for a, b in re.findall(r"^    (\w+) --> (\w+):", PAGE, re.MULTILINE)}

    assert drawn
    assert drawn <= MOVES
