"""Every test costs what its marks say, and docs/testing.md names each file that ``make test`` leaves out."""

import contextlib
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.suite.cost import COSTS, FIXTURES, NEVER_QUICK, UndeclaredCostError, guarded, not_quick

ROOT = Path(__file__).resolve().parents[2]
NOTHING = [sys.executable, "-S", "-c", ""]


def moved() -> list[str]:
    """Return the files and folders that the table of docs/testing.md names."""
    text = (ROOT / "docs/testing.md").read_text(encoding="utf-8")
    return re.findall(r"^\| `(tests/[^`]+)` \|", text, flags=re.MULTILINE)


@pytest.mark.parametrize("cost", ["pure", "db"])
def test_process_is_noticed_in_a_test_that_does_not_say_so(cost: str) -> None:
    """It fails before the process begins, and again where the test catches the error."""
    with pytest.raises(UndeclaredCostError, match=r"subprocess\.Popen"), guarded(cost):
        subprocess.run(NOTHING, check=True)
    with pytest.raises(UndeclaredCostError, match=f"a {cost} test"), guarded(cost), contextlib.suppress(RuntimeError):
        subprocess.run(NOTHING, check=True)


def test_connection_is_noticed_in_a_pure_test() -> None:
    """A port that is opened is one."""
    with pytest.raises(UndeclaredCostError, match="socket"), guarded("pure"), socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))


def test_costs_are_known() -> None:
    """Each fixture stands for one of the costs."""
    assert set(FIXTURES.values()) < set(COSTS)


def test_every_file_that_is_not_quick_is_listed() -> None:
    """Nothing leaves ``make test`` unsaid, and nothing is listed that is not there."""
    listed = moved()

    assert [path for path in listed if not (ROOT / path).exists()] == []
    assert sorted(path for path in not_quick if not path.startswith(tuple(listed))) == []
    assert [path for path in NEVER_QUICK if path not in listed] == []
