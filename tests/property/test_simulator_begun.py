"""A replay that begins from a snapshot decides its first round as the live cluster does."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from scheduler.choices import build_config
from scheduler.core.model.tables import Placements, Snapshot
from scheduler.core.round.plan_round import plan_round
from scheduler.simulator.replay.engine import simulate
from scheduler.simulator.replay.replay import Replay
from scheduler.simulator.state.begun import Begun, jobs_of
from tests.support.simulator.strategies import snapshots
from tests.support.suite.examples import tried

CONFIGS = [
    ("fifo", "consolidate", "proportional"),
    ("las", "consolidate", "tune"),
    ("srtf", "any", "greedy"),
    ("priority", "relax", "tune"),
]
Seat = tuple[int, int, int]  # job row, server row, GPUs


def known(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot with a run time left for every job, no job on the way out, and no unsaved work.

    ``Begun`` does not carry unsaved work, so a replay would choose other jobs to preempt among equals.
    """
    jobs = snapshot.jobs
    left = np.where(np.isfinite(jobs.remaining_s), np.maximum(jobs.remaining_s, 10.0), 5_000.0 + jobs.job_id)
    started = np.where(jobs.running, np.minimum(jobs.first_start_s, snapshot.now_s), jobs.first_start_s)
    return replace(
        snapshot,
        jobs=replace(
            jobs,
            remaining_s=left,
            total_s=jobs.executed_s + left,
            first_start_s=started,
            unsaved_s=np.zeros(len(jobs)),
        ),
        releasing=Placements.none(),
    )


def seats_of(held: Placements) -> list[Seat]:
    """Return placements as rows."""
    return list(zip(held.job.tolist(), held.server.tolist(), held.num_gpus.tolist(), strict=True))


@pytest.mark.parametrize("skip", [True, False], ids=["short", "whole"])
@pytest.mark.parametrize("chosen", CONFIGS, ids=lambda chosen: "-".join(chosen))
@tried(25)
@given(snapshot=snapshots())
def test_first_round_of_a_begun_replay_is_the_live_one(
    chosen: tuple[str, str, str], skip: bool, snapshot: Snapshot
) -> None:
    """The same jobs sit on the same servers with the same number of GPUs."""
    policy, locality, mechanism = chosen
    config = build_config(policy=policy, locality=locality, mechanism=mechanism)
    snapshot = known(snapshot)
    wanted = seats_of(plan_round(snapshot, config).grants)

    outcome = simulate(
        Replay(
            jobs_of(snapshot, snapshot.jobs.remaining_s),
            snapshot.servers,
            snapshot.queues,
            config,
            until_s=snapshot.now_s,
            keep_stays=True,
            incremental=skip,
            begun=Begun(snapshot=snapshot, remaining_s=snapshot.jobs.remaining_s),
        )
    )

    assert outcome.is_continued
    assert outcome.stays is not None
    stays = zip(outcome.stays.job.tolist(), outcome.stays.server.tolist(), outcome.stays.num_gpus.tolist(), strict=True)
    # Who left comes first, who still sits comes last.
    assert sorted(list(stays)[-len(wanted) :] if wanted else []) == sorted(wanted)
