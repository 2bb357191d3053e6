"""Small replays for tests of policies: jobs on identical servers, one queue unless said otherwise."""

from collections.abc import Mapping, Sequence

from scheduler.choices import build_config
from scheduler.simulator.jobs import SimJob
from scheduler.simulator.replay.engine import simulate
from scheduler.simulator.replay.replay import Replay
from scheduler.simulator.state.outcome import Outcome
from tests.support.simulator.strategies import QueueRow, ServerRow, snapshot_of


def server(num_gpus: int) -> ServerRow:
    """Return a server with three cores and 62.5 GB a GPU, as in the Synergy paper."""
    return ServerRow(num_gpus=num_gpus, num_cpus=3.0 * num_gpus, memory_bytes=62.5e9 * num_gpus)


def job(num_gpus: int, run_s: float, *, arrival_s: float = 0.0, owner: int = 0, queue: int = 0) -> SimJob:
    """Return a rigid job of known length without a profile."""
    return SimJob(arrival_s=arrival_s, num_gpus=num_gpus, run_s=run_s, owner=owner, queue=queue)


def replay(
    jobs: Sequence[SimJob],
    policy: str,
    options: Mapping[str, object] | None = None,
    *,
    servers: Sequence[int] = (2,),
    queues: Sequence[QueueRow] = (QueueRow(),),
    round_s: float | None = None,
) -> Outcome:
    """Return what happens on servers with so many GPUs each, cores and memory by share."""
    tables = snapshot_of([], [server(gpus) for gpus in servers], list(queues))
    config = build_config(policy=policy, policy_options=options, mechanism="proportional")
    return simulate(Replay(jobs, tables.servers, tables.queues, config, round_s=round_s))
