"""Packing by the real engine on a virtual clock: two jobs on one GPU, measured, kept or taken back."""

from collections.abc import Iterable

import pytest

from scheduler.core.model.lifecycle import JobState
from scheduler.models import Event, Job, LeaseGpu, Round, Trial
from scheduler.selectors.cluster.servers import server_list
from tests.support.live.world import World

QUANTUM_S, TRIAL_S = 5, 10


@pytest.fixture
def packing(world: World) -> World:
    """A world in which jobs take turns and pairs are tried."""
    options = {
        "slicing": {"quantum_s": QUANTUM_S},
        "packing": {"look_s": QUANTUM_S, "trial_s": TRIAL_S, "check_s": 20, "forget_s": 3600},
    }
    world.settings(introspection=["slicing", "packing"], introspection_options=options)
    return world


def play(world: World, seconds: int, *, together: float) -> None:
    """Let time pass; jobs alone on a slot do two steps a second, those that share it ``together`` each."""
    for _ in range(seconds):
        for agent in world.agents.values():
            running = [a for a in agent.attempts.values() if a.phase == "running" and a.wanted.wanted == "run"]
            for attempt in running:
                mine = attempt.wanted.gpu_indexes
                shares = sum(other.wanted.gpu_indexes == mine for other in running) > 1
                attempt.steps_per_s = together if shares else 2.0
        world.pass_time(1)


def play_busily(world: World, seconds: int, *, together: float) -> None:
    """Let time pass on a busy machine: who is asked off a slot takes its time, and rounds look at it meanwhile."""
    for _ in range(seconds):
        for agent in world.agents.values():
            agent.parks_after_s = 3.0
        play(world, 1, together=together)
        world.round()


def verdicts(job: Job) -> list[str]:
    """Return what a job was told of trials, in order."""
    return list(Event.objects.filter(job=job, kind="trial").order_by("number").values_list("reason", flat=True))


def sharing() -> Iterable[tuple[int, int]]:
    """Return (GPU, place on it) of every GPU in an open lease."""
    return LeaseGpu.objects.filter(released_at=None).order_by("gpu_id", "slot").values_list("gpu_id", "slot")


def test_pair_that_gains_is_kept(packing: World) -> None:
    """Each at 75 % of its speed alone: together half as much again as in turns. Both leases are on the one GPU."""
    packing.server("alpha", slots=1)
    first, second = packing.submit(), packing.submit()
    play(packing, 60, together=1.5)

    assert packing.state(first) == packing.state(second) == JobState.RUNNING
    assert [slot for _, slot in sharing()] == [0, 1]
    assert len({gpu for gpu, _ in sharing()}) == 1
    assert verdicts(first)[:2] == verdicts(second)[:2] == ["pack_trying", "pack_kept"]
    told = Event.objects.filter(job=first, reason="pack_kept").order_by("number")[0].data
    assert (told["rates_before"], told["rates_after"]) == ([2.0, 2.0], [1.5, 1.5])
    assert told["gain"] == pytest.approx(1.5)
    assert Trial.objects.get(kind="pack").verdict == "kept"
    grants = [grant for round_ in Round.objects.all() for grant in round_.decisions.get("grants", ())]
    assert any(grant.get("riding") in (first.number, second.number) for grant in grants)
    assert [attempt.number for job in (first, second) for attempt in packing.attempts(job)] == [1, 1]
    gpu = server_list(packing.admin)[0]["gpus"][0]
    assert {job["number"] for job in (gpu["job"], gpu["guest"]) if job} == {first.number, second.number}


def test_pair_is_found_as_its_host_gets_its_turn(packing: World) -> None:
    """The host waited till then: it comes beside the guest, which has had the GPU for itself."""
    turn_s = 12  # one that is a second late is a turn like others
    options = {"slicing": {"quantum_s": turn_s}, "packing": {"look_s": turn_s, "trial_s": turn_s, "check_s": 60}}
    packing.settings(introspection_options=options)
    packing.server("alpha", slots=1)
    first, second = packing.submit(), packing.submit()
    play(packing, 5 * turn_s, together=1.5)

    assert Trial.objects.get(kind="pack").jobs == [first.number, second.number]
    assert packing.state(first) == packing.state(second) == JobState.RUNNING
    assert sorted(place for _, place in sharing()) == [0, 1]
    assert verdicts(first)[:2] == ["pack_trying", "pack_kept"]


def test_pair_that_loses_is_taken_apart_within_two_quanta(packing: World) -> None:
    """Each at 40 %: less than in turns. They go on in turns, and are not tried again."""
    packing.server("alpha", slots=1)
    first, second = packing.submit(), packing.submit()
    for _ in range(60):
        if Trial.objects.filter(kind="pack").exists():
            break
        play(packing, 1, together=0.8)
    play(packing, TRIAL_S + 3, together=0.8)
    trial = Trial.objects.get(kind="pack")
    after = list(sharing())
    play(packing, 40, together=0.8)

    assert (trial.verdict, trial.rates_after) == ("undone", [0.8, 0.8])
    assert trial.until_s > trial.began_s + 3600
    assert [slot for _, slot in after] in ([0], [1])
    assert verdicts(first) == verdicts(second) == ["pack_trying", "pack_undone"]
    assert Trial.objects.filter(kind="pack").count() == 1
    assert {packing.state(first), packing.state(second)} == {JobState.RUNNING, JobState.PARKED}
    assert [attempt.number for job in (first, second) for attempt in packing.attempts(job)] == [1, 1]


def test_speeds_of_jobs_on_their_way_off_are_remembered(packing: World) -> None:
    """Rounds that come while one leaves its slot do not forget how fast it was, or no pair would ever be tried."""
    packing.server("alpha", slots=1)
    first, _ = packing.submit(), packing.submit()
    play_busily(packing, 60, together=1.5)

    assert verdicts(first)[:2] == ["pack_trying", "pack_kept"]


def test_verdict_on_a_pair_outlasts_the_way_off_its_slot(packing: World) -> None:
    """A pair that lost is not tried again while one of the two leaves."""
    packing.server("alpha", slots=1)
    first, _ = packing.submit(), packing.submit()
    play_busily(packing, 120, together=0.8)

    assert verdicts(first) == ["pack_trying", "pack_undone"]


def test_pair_that_was_kept_takes_its_turn_as_one(packing: World) -> None:
    """Beside a third job: rounds between the two on their way off do not tear them apart."""
    packing.server("alpha", slots=1)
    first, second, _ = packing.submit(), packing.submit(), packing.submit()
    play_busily(packing, 120, together=1.5)
    told = [*verdicts(first), *verdicts(second)]

    assert "pack_kept" in told
    assert "pack_gone" not in told


def test_pair_ends_with_one_of_its_jobs(packing: World) -> None:
    """The other job continues alone, and the slot is free for a third."""
    agent = packing.server("alpha", slots=1)
    first, second = packing.submit(), packing.submit()
    play(packing, 60, together=1.5)
    agent.end(first.pk, cause="completed", exit_code=0)
    play(packing, 5, together=1.5)

    assert packing.state(first) == JobState.COMPLETED
    assert packing.state(second) == JobState.RUNNING
    assert len(list(sharing())) == 1
    assert not Trial.objects.filter(kind="pack", place__isnull=False).exists()


def test_guest_gets_a_gpu_of_its_own_when_there_is_one(packing: World) -> None:
    """A second server joins: no job waits, so no job has to share."""
    packing.server("alpha", slots=1)
    first, second = packing.submit(), packing.submit()
    play(packing, 60, together=1.5)
    packing.server("beta", slots=1)
    play(packing, 15, together=1.5)

    assert packing.state(first) == packing.state(second) == JobState.RUNNING
    gpus = [gpu for gpu, _ in sharing()]  # who was the guest is decided by whose turn it was
    assert len(gpus) == len(set(gpus)) == 2
    assert sorted(len(packing.attempts(job)) for job in (first, second)) == [1, 2]
