"""Gangs of real processes by the runtime library alone: same training as one rank, one boundary for all, growth."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.runtime.run import EXIT_STOPPED
from tests.support.agents.gang_ranks import Gang, Training

STEPS = 400
# Of a rank that joins, as if it had to import much.
START_S = 2.0
TOLERANCE = 1e-4


class Gangs:
    """Makes gangs and leaves no process behind."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.made: list[Gang] = []

    def start(self, training: Training, *members: str) -> Gang:
        """Return a gang that has been started with these members."""
        folder = self.path / f"gang-{len(self.made)}"
        folder.mkdir()
        gang = Gang(folder=folder, training=training)
        self.made.append(gang)
        gang.write(*members)
        gang.start(*members)
        return gang


@pytest.fixture
def gangs(tmp_path: Path) -> Iterator[Gangs]:
    """A maker of gangs."""
    made = Gangs(tmp_path)
    yield made
    for gang in made.made:
        gang.end()


@pytest.fixture(scope="module")
def curve(tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    """The losses of one rank that trains alone."""
    alone = Gangs(tmp_path_factory.mktemp("alone")).start(Training(steps=STEPS), "alone")
    assert alone.codes() == {"alone": 0}
    return alone.losses("alone")


def test_size_changes_after_steps_alone_where_ranks_poll(gangs: Gangs, curve: list[float]) -> None:
    """A rank that joins begins with a step: it knows nothing of an evaluation that the others are in."""
    gang = gangs.start(Training(steps=STEPS, step_s=0.05, polls=5), "first")
    gang.wait("steps", lambda: len(gang.steps("first")) > 5)
    gang.share("first", "second")
    gang.start("second")
    gang.wait("two ranks", lambda: len(gang.steps("second")) > 5)
    gang.share("first")

    assert gang.codes() == {"first": 0, "second": EXIT_STOPPED}
    assert [step["step"] for step in gang.steps("first")] == list(range(STEPS))
    assert gang.losses("first") == pytest.approx(curve, rel=TOLERANCE)


@pytest.mark.parametrize("size", [2, 3])
def test_ranks_train_as_one_would_with_the_whole_batch(gangs: Gangs, curve: list[float], size: int) -> None:
    """The loss of every step is that of one rank, also where eight rows are split among three."""
    members = [f"m{rank}" for rank in range(size)]
    gang = gangs.start(Training(steps=STEPS), *members)

    assert gang.codes() == dict.fromkeys(members, 0)
    for member in members:
        assert gang.losses(member) == pytest.approx(curve, rel=TOLERANCE)
    assert sum(gang.steps(member)[0]["rows"] for member in members) == 8


def test_growing_and_shrinking_keeps_the_loss_curve(gangs: Gangs, curve: list[float]) -> None:
    """One rank, two, one again: each step is trained once, with the loss of a training of fixed size."""
    gang = gangs.start(Training(steps=STEPS, step_s=0.05, start_s=START_S), "first")
    gang.wait("steps", lambda: len(gang.steps("first")) > 5)
    gang.share("first", "second")
    gang.start("second")
    gang.wait("two ranks", lambda: len(gang.steps("second")) > 5)
    gang.share("first")

    assert gang.codes() == {"first": 0, "second": EXIT_STOPPED}
    steps = gang.steps("first")
    assert [step["step"] for step in steps] == list(range(STEPS))
    assert [ranks for ranks, _ in itertools.groupby(step["ranks"] for step in steps)] == [1, 2, 1]
    pauses_s = [
        later["at_s"] - step["at_s"] for step, later in itertools.pairwise(steps) if step["ranks"] != later["ranks"]
    ]
    assert max(pauses_s) < START_S  # as long as a restart would stand still at the least
    assert gang.losses("first") == pytest.approx(curve, rel=TOLERANCE)
    told = gang.job("first").reports("resized")
    assert [(report["version"], report["ranks"]) for report in told] == [(0, 1), (1, 2), (2, 1)]


def test_training_goes_on_while_a_new_rank_starts(gangs: Gangs) -> None:
    """The running group does not wait for a rank that takes its time."""
    endless = 1_000_000  # however long the second rank takes, the first still trains
    gang = gangs.start(Training(steps=endless, step_s=0.02, start_s=START_S), "first")
    gang.wait("steps", lambda: len(gang.steps("first")) > 5)
    gang.share("first", "second")
    gang.start("second")
    gang.wait("two ranks", lambda: len(gang.steps("second")) > 5)

    steps = gang.steps("first")
    alone = [step["at_s"] for step in steps if step["ranks"] == 1]
    gaps_s = [later - at for at, later in itertools.pairwise(alone)]
    assert alone[-1] - alone[0] > START_S
    assert max(gaps_s) < START_S / 2


def test_burst_of_shares_ends_in_the_last_one(gangs: Gangs) -> None:
    """Ten shares within a second: one switch, to the last; ranks of the shares between go home by themselves."""
    gang = gangs.start(Training(steps=600, step_s=0.1, debounce_s=0.5), "first")
    gang.wait("steps", lambda: len(gang.steps("first")) > 5)
    for number in range(10):
        others = [f"r{number}"] if number % 2 == 0 or number == 9 else []
        gang.share("first", *others)
        gang.start(*others)
    gang.wait("the last share", lambda: len(gang.steps("r9")) > 5)

    early = [f"r{number}" for number in (0, 2, 4, 6, 8)]
    gang.wait("the others go home", lambda: all(gang.ranks[rank].exitcode is not None for rank in early))

    codes = gang.codes()
    assert codes == {"first": 0, "r9": 0} | dict.fromkeys(early, EXIT_STOPPED)
    told = gang.job("first").reports("resized")
    assert [(report["version"], report["ranks"]) for report in told] == [(0, 1), (10, 2)]


def test_burst_that_returns_to_the_present_share_changes_nothing(gangs: Gangs) -> None:
    """There and back within the pause that shares must last: no switch, and the newest version is acknowledged."""
    gang = gangs.start(Training(steps=600, step_s=0.1, debounce_s=0.5), "first")
    gang.wait("steps", lambda: len(gang.steps("first")) > 5)
    gang.share("first", "second")
    gang.start("second")
    gang.share("first")
    gang.wait("the last share", lambda: len(gang.job("first").reports("resized")) == 2)
    gang.wait("the second goes home", lambda: gang.ranks["second"].exitcode is not None)

    assert gang.codes() == {"first": 0, "second": EXIT_STOPPED}
    assert {step["ranks"] for step in gang.steps("first")} == {1}
    told = gang.job("first").reports("resized")
    assert [(report["version"], report["ranks"]) for report in told] == [(0, 1), (2, 1)]


@pytest.mark.parametrize("asked", ["first", "second"])
def test_stop_asked_of_one_rank_stops_all_at_one_boundary(gangs: Gangs, asked: str) -> None:
    """All ranks end after the same step; the leader alone writes the checkpoint."""
    gang = gangs.start(Training(steps=5000, step_s=0.002), "first", "second")
    gang.wait("steps", lambda: len(gang.steps("second")) > 5)
    gang.job(asked).ask(1, "stop")

    assert gang.codes() == {"first": EXIT_STOPPED, "second": EXIT_STOPPED}
    assert len(gang.steps("first")) == len(gang.steps("second"))
    assert [report["step"] for report in gang.job("first").reports("checkpoint")] == [len(gang.steps("first"))]
    assert not gang.job("second").checkpoints()


def test_ranks_park_and_go_on_together(gangs: Gangs, curve: list[float]) -> None:
    """Asked one after the other they leave at one boundary, each answers its own request, and no step is lost."""
    gang = gangs.start(Training(steps=STEPS, step_s=0.01), "first", "second")
    gang.wait("steps", lambda: len(gang.steps("second")) > 5)
    gang.job("second").ask(1, "park")
    gang.wait("both are off", lambda: gang.job("first").reports("parked") and gang.job("second").reports("parked"))
    gang.job("first").ask(1, "park")
    gang.wait("the first answers", lambda: len(gang.job("first").reports("parked")) == 2)
    at = [gang.job(member).reports("parked")[-1] for member in ("first", "second")]
    trained = len(gang.steps("first"))
    gang.job("first").ask(2, "continue")
    gang.job("second").ask(2, "continue")

    assert [(told["request"], told["step"]) for told in at] == [(1, trained), (1, trained)]
    assert gang.codes() == {"first": 0, "second": 0}
    assert gang.losses("first") == pytest.approx(curve, rel=TOLERANCE)


def test_rank_told_to_stop_while_parked_stops_all(gangs: Gangs) -> None:
    """Even if another was told to go on before: the leader writes the checkpoint of where they parked."""
    gang = gangs.start(Training(steps=5000, step_s=0.01), "first", "second")
    gang.wait("steps", lambda: len(gang.steps("second")) > 5)
    gang.job("first").ask(1, "park")
    gang.wait("both are off", lambda: gang.job("first").reports("parked") and gang.job("second").reports("parked"))
    trained = len(gang.steps("first"))
    gang.job("first").ask(2, "continue")
    gang.job("second").ask(2, "stop")

    assert gang.codes() == {"first": EXIT_STOPPED, "second": EXIT_STOPPED}
    assert [report["step"] for report in gang.job("first").reports("checkpoint")] == [trained]


def test_killed_rank_ends_the_others_with_their_own_code(gangs: Gangs) -> None:
    """Whoever sees a peer go says so by its exit code, so that the cause is looked for in the right place."""
    gang = gangs.start(Training(steps=5000, step_s=0.002), "first", "second")
    gang.wait("steps", lambda: len(gang.steps("second")) > 5)
    gang.ranks["second"].kill()

    assert gang.codes() == {"first": 76, "second": -9}


def test_membership_file_that_makes_no_sense_is_passed_over(gangs: Gangs) -> None:
    """Half a file, or one without members, changes nothing."""
    gang = gangs.start(Training(steps=1000, step_s=0.005), "first")
    gang.wait("steps", lambda: len(gang.steps("first")) > 5)
    for content in ("{", json.dumps({"version": 5, "members": []}), json.dumps(["first"])):
        (gang.folder / "gang.json").write_text(content)
        before = len(gang.steps("first"))
        gang.wait("more steps", lambda before=before: len(gang.steps("first")) > before + 3)  # type: ignore[misc]

    assert gang.codes() == {"first": 0}
