"""In what order the tests of a run are done, and which of them beside each other.

End-to-end tests mostly wait for the product, which they share; all others compute. With several workers one takes the
end-to-end tests, one after the other, while the rest do the others, cheap ones first, and of equal cost those that
take minutes. Workers that compute run below the product in priority, so that it runs as on a machine of its own.
"""

import gc
import os
from collections.abc import Generator
from pathlib import Path

import pytest
from xdist.scheduler.loadscope import LoadScopeScheduling

from tests.support.suite.cost import COSTS, END_TO_END, NEVER_QUICK, cost_of, guarded, mark

# Tests here share nothing but what a file imports; some of their files would keep a worker for minutes.
ON_THEIR_OWN = ("tests/faults/", "tests/oracle/", "tests/property/")
# Of equal cost these begin first: one that began last would keep a worker for minutes when the others are done.
LONGEST = (
    "tests/integration/management/test_restore.py",
    "tests/integration/runtime/test_gang.py",
    "tests/integration/scripts/",
)
# Of a worker that computes: below the product, but not so far that other work on the machine starves the tests.
NICENESS = 3

_cost = pytest.StashKey[str]()
_is_nice = pytest.StashKey[bool]()


class BesideEachOther(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Gives a worker one file at a time, or one test of those on their own, or all end-to-end tests."""

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(END_TO_END):
            return END_TO_END
        return nodeid if nodeid.startswith(ON_THEIR_OWN) else nodeid.partition("::")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> BesideEachOther:
    """Return what gives the workers their tests, in the order in which these were collected."""
    config.option.loadscopereorder = False
    return BesideEachOther(config, log)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import nothing for a quick run that it would leave out."""
    path = collection_path.relative_to(config.rootpath).as_posix() + "/" * collection_path.is_dir()
    return True if config.option.markexpr == "quick" and path.startswith(NEVER_QUICK) else None


@pytest.hookimpl(tryfirst=True, wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None]:
    """Mark tests before they are chosen by mark; put the chosen in order: end-to-end, then cheap before dear ones.

    Without workers the end-to-end tests come last.
    """
    mark(items)
    yield
    is_beside_others = hasattr(config, "workerinput")

    def place(item: pytest.Item) -> tuple[int, bool]:
        is_short = not item.nodeid.startswith(LONGEST)
        if item.nodeid.startswith(END_TO_END):
            return -1 if is_beside_others else len(COSTS), is_short
        return COSTS.index(item.stash.setdefault(_cost, cost_of(item))), is_short

    items.sort(key=place)


def pytest_collection_finish() -> None:
    """Let the garbage collector pass over what lives as long as the run, and look less often at the rest."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    """Set a test up under the guard of its cost; a worker that comes to tests that compute lowers its priority."""
    is_worker = hasattr(item.config, "workerinput")
    if is_worker and not item.nodeid.startswith(END_TO_END) and not item.config.stash.get(_is_nice, False):
        item.config.stash[_is_nice] = True
        os.nice(NICENESS)
    with guarded(cost_of(item)):
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Run a test under the guard of its cost."""
    with guarded(cost_of(item)):
        yield


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say how to repeat the order of this run."""
    if hasattr(config.option, "randomly_seed"):
        terminalreporter.write_line(f"order and examples: --randomly-seed={config.option.randomly_seed}")
