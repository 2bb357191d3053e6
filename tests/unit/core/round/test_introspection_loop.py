"""The loop of a round with introspection: when it decides once more."""

from dataclasses import dataclass, replace
from typing import ClassVar

from scheduler.choices import build_config
from scheduler.core.model.plan import Plan
from scheduler.core.round.config import Scene
from scheduler.core.round.plan_round import plan_round
from tests.support.simulator.strategies import JobRow, ServerRow, snapshot_of


@dataclass(frozen=True, slots=True, kw_only=True)
class _ShortestFirst:
    """An introspection that proposes another policy and nothing else."""

    name: ClassVar[str] = "shortest-first"

    def prepare(self, scene: Scene) -> Scene:
        return scene

    def propose(self, scene: Scene, plan: Plan) -> Scene:
        return replace(scene, config=replace(scene.config, policy=build_config(policy="srtf").policy))


def test_a_proposal_that_changes_the_configuration_alone_is_decided() -> None:
    """Else it would be adopted with a plan that knows nothing of it."""
    jobs = [JobRow(num_gpus=8, arrival_s=0.0, remaining_s=9.0), JobRow(num_gpus=8, arrival_s=1.0, remaining_s=1.0)]
    snapshot = snapshot_of(jobs, [ServerRow()])
    config = build_config(policy="fifo")

    plan = plan_round(snapshot, replace(config, introspection=(_ShortestFirst(),)))

    assert plan_round(snapshot, config).order == [0, 1]
    assert plan.order == [1, 0]
    assert plan.grants.job.tolist() == [1]
