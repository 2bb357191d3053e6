"""In what order the tests of a whole run are done, and which of them beside each other.

The end-to-end tests mostly wait for the product, which they share; all others compute. With several workers one takes
the end-to-end tests, one after the other, while the rest do the others: quick ones first. Whoever computes steps back
for the product, so that it runs as on a machine of its own.
"""

import gc
import os

import pytest
from xdist.scheduler.loadscope import LoadScopeScheduling

END_TO_END = "tests/e2e/"
# Tests here share nothing but what a file imports; some of their files would keep a worker for minutes.
ON_THEIR_OWN = ("tests/faults/", "tests/oracle/", "tests/property/")
# Of a worker that computes, below the product.
NICENESS = 10

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


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put quick tests before slow ones; the end-to-end tests come last, or at once where others run beside them."""
    is_beside_others = hasattr(config, "workerinput")

    def place(item: pytest.Item) -> int:
        if item.nodeid.startswith(END_TO_END):
            return 0 if is_beside_others else 3
        return 2 if item.get_closest_marker("slow") else 1

    items.sort(key=place)


def pytest_collection_finish() -> None:
    """Let the garbage collector pass over what lives as long as the run, and look less often at the rest."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Step back for the product once a worker comes to tests that compute."""
    is_worker = hasattr(item.config, "workerinput")
    if is_worker and not item.nodeid.startswith(END_TO_END) and not item.config.stash.get(_is_nice, False):
        item.config.stash[_is_nice] = True
        os.nice(NICENESS)
