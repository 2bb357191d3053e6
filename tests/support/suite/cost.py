"""What a test costs, derived from the fixtures that it uses, and whether ``make test`` runs it.

``pytest_collection_modifyitems`` marks every test with its cost and refuses a unit test that is not pure. ``guarded``
holds the costs true: a test that starts a process without saying so by a fixture fails. ``tests/unit/test_suite.py``
tests both.
"""

import multiprocessing.util
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.test import TransactionTestCase
from hypothesis import is_hypothesis_test

PURE, DB, PROCESS, STACK, BROWSER = COSTS = ("pure", "db", "process", "stack", "browser")
# Cheapest first: a test costs as much as the dearest of its fixtures.
FIXTURES = {
    **dict.fromkeys(("db", "transactional_db", "django_db_setup", "live_server", "connections"), DB),
    "processes": PROCESS,
    "stack": STACK,
    **dict.fromkeys(("demo", "browser"), BROWSER),
}
# Tests here start a product of their own where they do not use the fixture ``stack``.
END_TO_END = "tests/e2e/"
MAIN_JOB = "tests/e2e/test_main_job.py"
# Left to ``make test-all`` whatever they cost: they take minutes, or torch, and so does their import.
NEVER_QUICK = (
    "tests/browser/",
    "tests/faults/test_faults_checkers.py",
    "tests/integration/agents/",
    "tests/integration/api/http/test_contract.py",
    "tests/integration/runtime/",
    "tests/integration/whatif/test_fidelity.py",
    "tests/oracle/",
    "tests/unit/examples/test_synergy.py",
)
_STARTS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "os.exec"}
_CONNECTS = {"socket.bind", "socket.connect"}
_FORBIDDEN = {PURE: _STARTS | _CONNECTS, DB: _STARTS}


# Files with tests that `make test` leaves to `make test-all`, of those collected.
not_quick: set[str] = set()


class UndeclaredCostError(RuntimeError):
    """A test starts a process or opens a connection, and none of its fixtures says so."""


def cost_of(item: pytest.Item) -> str:
    """Return the cost of a test."""
    names = set(getattr(item, "fixturenames", ()))
    costs = {cost for name, cost in FIXTURES.items() if name in names}
    uses_database = issubclass(getattr(item, "cls", None) or object, TransactionTestCase)
    if uses_database or item.get_closest_marker("django_db"):
        costs.add(DB)
    if item.nodeid.startswith(END_TO_END):
        costs.add(STACK)
    return max(costs, key=COSTS.index, default=PURE)


def is_quick(item: pytest.Item, cost: str) -> bool:
    """Return whether ``make test`` runs a test."""
    if item.nodeid.startswith(NEVER_QUICK) or item.get_closest_marker("long"):
        return False
    return cost in (PURE, DB) or item.nodeid.startswith(MAIN_JOB)


def mark(items: Iterable[pytest.Item]) -> None:
    """Mark every test with its cost, those of ``make test`` with ``quick``, and properties with ``examples``.

    Raises:
        pytest.UsageError: If a unit test is not pure.
    """
    dear = []
    for item in items:
        cost = cost_of(item)
        item.add_marker(cost)
        if is_quick(item, cost):
            item.add_marker("quick")
        else:
            not_quick.add(item.nodeid.partition("::")[0])
        if is_hypothesis_test(getattr(item, "obj", None)):
            item.add_marker("examples")
        if cost != PURE and item.nodeid.startswith("tests/unit/"):
            dear.append(f"{item.nodeid} ({cost})")
    if dear:
        raise pytest.UsageError("a unit test uses no database and no process: " + ", ".join(dear))


# What is forbidden now, and what of it was tried; the innermost `guarded` is the last.
_guards: list[tuple[set[str], list[str]]] = [(set(), [])]


def _hook(event: str, _arguments: tuple[Any, ...]) -> None:  # of any type, see sys.addaudithook
    forbidden, tried = _guards[-1]
    if event in forbidden:
        tried.append(event)
        raise UndeclaredCostError(f"{event}: a test that does this uses the fixture `processes` or `connections`")


def watch() -> None:
    """Begin to hear of every process that is started and every connection that is opened, for good."""
    sys.addaudithook(_hook)
    spawn = multiprocessing.util.spawnv_passfds  # raises no audit event

    def heard(*arguments: Any) -> Any:  # as those of the original
        _hook("os.posix_spawn", arguments)
        return spawn(*arguments)

    multiprocessing.util.spawnv_passfds = heard  # type: ignore[assignment]  # takes any arguments


@contextmanager
def guarded(cost: str) -> Iterator[None]:
    """Fail what costs more than this, even where the error is caught.

    Raises:
        UndeclaredCostError: If a process is started, or a connection opened, that this cost does not include.
    """
    tried: list[str] = []
    _guards.append((_FORBIDDEN.get(cost, set()), tried))
    try:
        yield
    finally:
        _guards.pop()
    if tried:
        raise UndeclaredCostError(f"a {cost} test tried {', '.join(sorted(set(tried)))}")
