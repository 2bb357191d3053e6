"""When jobs get models that their trace does not name, and what is told about it."""

from pathlib import Path

import pytest

from scheduler.simulator.speeds.profiles import DEFAULT_MIX
from scheduler.simulator.study.cluster import GB, Cluster, ServerGroup
from scheduler.simulator.study.study import Prepared, Study, Workload, prepare

PLAIN = "arrival_s,num_gpus,run_s\n0,1,600\n10,8,60\n"
REQUESTS = "arrival_s,num_gpus,run_s,min_cpus\n0,1,600,\n10,8,60,30\n"


def servers(cpus: float, *, count: int = 1, memory_gb: float = 500) -> ServerGroup:
    """Return alike servers of 8 GPUs."""
    return ServerGroup(count=count, gpus=8, cpus=cpus, memory_bytes=memory_gb * GB)


def prepared(folder: Path, text: str, *groups: ServerGroup, mix: dict[str, float] | None = None) -> Prepared:
    """Return the study of a trace, read."""
    (folder / "trace.csv").write_text(text)
    workload = Workload(source=str(folder / "trace.csv"), mix=mix)
    return prepare(Study(workload=workload, cluster=Cluster(groups=groups)), seed=0)


def test_jobs_of_which_nothing_is_known_get_models(tmp_path: Path) -> None:
    """On servers like those of the measurements."""
    found = prepared(tmp_path, PLAIN, servers(24))
    assert found.mix == DEFAULT_MIX
    assert all(job.model for job in found.trace.jobs)
    assert found.trace.warnings == ()


@pytest.mark.parametrize(
    ("text", "groups", "why"),
    [
        (REQUESTS, [servers(32)], "the trace tells which cores and memory its jobs request"),
        (PLAIN, [servers(24), servers(48)], "what comes with a GPU differs from server to server"),
        (PLAIN, [servers(24), servers(24, memory_gb=250)], "what comes with a GPU differs from server to server"),
        (PLAIN, [servers(96)], "models were measured with 3 to 6 cores for each GPU, the servers have 12"),
        (PLAIN, [servers(8)], "models were measured with 3 to 6 cores for each GPU, the servers have 1"),
    ],
)
def test_a_mix_is_no_default_where_it_stands_for_nothing(
    tmp_path: Path, text: str, groups: list[ServerGroup], why: str
) -> None:
    """Run times stay those of the trace, and the reason is told; a mix that is asked for is drawn."""
    found = prepared(tmp_path, text, *groups)
    assert found.mix == {}
    assert not any(job.model for job in found.trace.jobs)
    assert found.trace.warnings[-1].startswith(f"no job gets a model: {why};")

    assert all(job.model for job in prepared(tmp_path, text, *groups, mix={"image": 1.0}).trace.jobs)


def test_a_mix_that_slows_jobs_below_their_share_warns(tmp_path: Path) -> None:
    """A job on the poorer servers would run slower than its trace says."""
    warnings = prepared(tmp_path, PLAIN, servers(48), servers(16), mix={"image": 1.0}).trace.warnings
    assert "the models of 2 of 2 jobs make them slower than the trace says" in warnings[-1]
    assert prepared(tmp_path, PLAIN, servers(48), servers(16), mix={}).trace.warnings == ()
