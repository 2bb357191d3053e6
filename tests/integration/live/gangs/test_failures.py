"""What failed in a gang, and its smoke run."""

from scheduler.core.model.lifecycle import EndCause, JobState
from scheduler.models import Cluster
from scheduler.models.job import AttemptKind
from tests.support.live.world import World


def test_gang_failed_for_what_one_rank_says_and_not_for_what_the_others_complain_of(world: World) -> None:
    """The complaint about the connection comes first; class and line are those of the rank that ran out of memory."""
    agents = [world.server("alpha"), world.server("beta")]
    job = world.submit(resources={"gpus": 4, "max_servers": 2})
    world.until_state(job, JobState.RUNNING)
    processes = [attempt for agent in agents for attempt in agent.attempts.values()]
    for agent in agents:
        agent.stops_at_once = False
    for place, (failure, line) in enumerate(
        [("mpi", "NCCL error"), ("gpu_oom", "CUDA out of memory."), ("mpi", "NCCL error"), ("network", "reset")]
    ):
        processes[place].extra = {"failure": failure, "failure_line": line}
        processes[place].phase, processes[place].cause, processes[place].exit_code = "ended", "exit_code", 1
        world.pass_time(1)

    attempt = world.attempts(job)[0]
    assert (attempt.end_cause, attempt.failure, attempt.failure_line) == (
        EndCause.EXIT_CODE,
        "gpu_oom",
        "CUDA out of memory.",
    )


def test_elastic_gang_over_servers_begins_on_one_gpu(world: World) -> None:
    """Whatever its bounds are, the smoke run is one process on one server."""
    Cluster.objects.update(smoke_run_s=10.0)
    world.server("alpha")
    world.server("beta")
    job = world.submit(resources={"gpus": 3, "min_gpus": 2, "max_gpus": 4, "max_servers": 2})
    world.until_state(job, JobState.RUNNING)
    world.until(lambda: len(world.attempts(job)) == 2)
    world.until_state(job, JobState.RUNNING)

    smoke, full = world.attempts(job)
    assert (smoke.kind, smoke.num_gpus, smoke.end_cause) == (AttemptKind.SMOKE, 1, EndCause.SMOKE_PASSED)
    assert full.kind == AttemptKind.FULL
    assert full.num_gpus >= 2
