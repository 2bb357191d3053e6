"""Rules of the house that no linter knows: the world is reached through ports, decisions have no clock."""

import ast
from collections.abc import Iterator

import pytest

from clusterweb.config.env import BASE_DIR

SYSTEM_CLOCK = BASE_DIR / "agents" / "protocol" / "clock.py"  # a port itself
WHATIF = BASE_DIR / "scheduler" / "whatif"
# They pace messages and measure how long a decision takes; the decision takes its time as an argument.
STOPWATCHES = {WHATIF / "scenarios" / "child.py", WHATIF / "shadow.py"}
# Everything in here takes its time, ids and chance as arguments or through a port.
THROUGH_PORTS = [
    *sorted((BASE_DIR / "scheduler" / "core").rglob("*.py")),
    *sorted((BASE_DIR / "scheduler" / "policies").rglob("*.py")),
    *sorted((BASE_DIR / "scheduler" / "placement").rglob("*.py")),
    *sorted((BASE_DIR / "scheduler" / "mechanisms").rglob("*.py")),
    *sorted((BASE_DIR / "scheduler" / "introspection").rglob("*.py")),
    *sorted((BASE_DIR / "scheduler" / "simulator").rglob("*.py")),
    *sorted((BASE_DIR / "scheduler" / "services").rglob("*.py")),
    *sorted((BASE_DIR / "scheduler" / "live").rglob("*.py")),
    *sorted({*WHATIF.rglob("*.py")} - STOPWATCHES),
    *sorted((BASE_DIR / "agents" / "core").rglob("*.py")),
    *sorted({*(BASE_DIR / "agents" / "protocol").rglob("*.py")} - {SYSTEM_CLOCK}),
]
FORBIDDEN_CALLS = {
    ("time", "time"),
    ("time", "monotonic"),
    ("time", "sleep"),
    ("uuid", "uuid4"),
    ("timezone", "now"),
    ("datetime", "now"),
    ("datetime", "utcnow"),
}
FORBIDDEN_MODULES = {"random", "uuid"}


def breaches(source: str) -> Iterator[str]:
    """Yield each forbidden import or call as ``line what``."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (f"{node.lineno} import {a.name}" for a in node.names if a.name in FORBIDDEN_MODULES)
        elif isinstance(node, ast.ImportFrom) and node.module in FORBIDDEN_MODULES:
            yield f"{node.lineno} from {node.module}"
        elif isinstance(node, ast.Attribute) and (ast.unparse(node.value), node.attr) in FORBIDDEN_CALLS:
            yield f"{node.lineno} {ast.unparse(node)}"


def test_time_ids_and_chance_come_through_ports() -> None:
    """On a virtual clock the same code must run the same way."""
    found = {str(path): list(breaches(path.read_text())) for path in THROUGH_PORTS}

    assert {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "source",
    [
        "import random",
        "from uuid import uuid4",
        "import time\ntime.sleep(1)",
        "from random import choice",
        "from random import Random",
    ],
)
def test_the_rule_itself_notices_a_breach(source: str) -> None:
    """A check that cannot fail proves nothing."""
    assert list(breaches(source))


def test_project_speaks_of_nothing_outside_itself() -> None:
    """No path of a machine, no address of a person stands in the tree."""
    words = ["/work/", "/root/"]
    tracked = [
        p for folder in ("clusterweb", "scheduler", "agents", "frontend") for p in (BASE_DIR / folder).rglob("*.py")
    ]

    assert [str(p) for p in tracked for word in words if word in p.read_text()] == []
