"""Deliberate defects in how environments are prepared, each of which must be caught within a few runs."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from agents.environments import keeper, store
from agents.environments.keeper import Keeper
from agents.protocol.environments import EnvironmentReport
from scheduler.live.rounds import snapshot
from tests.faults.preparing.preparing_run import prepared
from tests.faults.run import clean_database
from tests.faults.virtual import Violation

SEEDS = (1, 2, 3)
STRIKE_S = 90.0
Patch = pytest.MonkeyPatch
Anything = Any  # arguments and answers of the product's functions, passed through


def call_half_an_environment_whole(patch: Patch) -> None:
    """The agent says that an environment is ready while its builder is at work."""
    real = Keeper._standing

    def standing(self: Keeper, wanted: Anything, found: Anything) -> EnvironmentReport | None:
        report = real(self, wanted, found)
        return replace(report, state="ready", tail="") if report and report.state == "building" else report

    patch.setattr(Keeper, "_standing", standing)


def remove_what_is_in_use(patch: Patch) -> None:
    """Environments that jobs run in or wait for leave a full cache like others."""
    real = Keeper._make_room
    patch.setattr(Keeper, "_make_room", lambda self, kept, *_: real(self, kept, (), ()))


def build_without_locks(patch: Patch) -> None:
    """The agent takes every unfinished folder for one whose builder was killed, and builds there again."""
    patch.setattr(store, "is_locked", lambda _: False)
    patch.setattr(keeper, "fcntl", SimpleNamespace(flock=lambda *_: None, LOCK_EX=0, LOCK_NB=0))


def forget_the_mask(patch: Patch) -> None:
    """Rounds plan jobs onto servers without their environment."""
    patch.setattr(snapshot, "prepared_read", lambda *_: ())


def blame_the_files(patch: Patch) -> None:
    """An index that does not answer ends jobs as if their files were wrong."""
    real = EnvironmentReport.parse
    patch.setattr(EnvironmentReport, "parse", staticmethod(lambda data: replace(real(data), is_passing=False)))


DEFECTS: dict[Callable[[Patch], None], set[str]] = {
    call_half_an_environment_whole: {"E1"},
    remove_what_is_in_use: {"E2"},
    build_without_locks: {"E2"},
    forget_the_mask: {"E1", "E3"},
    blame_the_files: {"E3"},
}


@pytest.mark.long
@pytest.mark.django_db
@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.__name__)
def test_defect_is_caught(defect: Callable[[Patch], None], monkeypatch: Patch) -> None:
    """A harness that finds nothing in a broken product would find nothing in ours."""
    defect(monkeypatch)
    with pytest.raises(Violation) as caught:
        _run_all()

    assert caught.value.checker in DEFECTS[defect]


def _run_all() -> None:
    for seed in SEEDS:
        with clean_database():
            prepared(seed, strike_s=STRIKE_S)
