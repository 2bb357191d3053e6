"""Deliberate defects in how environments are prepared, each of which must be caught within a few runs."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

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
    """The agent makes room in its cache whoever needs what it removes."""
    real = Keeper._make_room
    patch.setattr(Keeper, "_make_room", lambda self, kept, *_: real(self, kept, (), ()))


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
