"""``manage.py simulate`` and the what-if page put the jobs of a trace into the same queues."""

from pathlib import Path

import numpy as np
import pytest

from scheduler.simulator.study.arms import Arm
from scheduler.simulator.study.cluster import GB, Cluster, ServerGroup, server_table
from scheduler.simulator.study.starting_points import columns_to_json, ready
from scheduler.simulator.study.study import Study, Workload, prepare
from scheduler.simulator.study.variants import Variant

PHILLY = str(Path(__file__).resolve().parents[3] / "fixtures/traces/philly_2017-10.csv.gz")
CLUSTER = Cluster(groups=(ServerGroup(count=16, gpus=8, cpus=24, memory_bytes=500 * GB),))


@pytest.mark.parametrize(
    ("source", "num_queues"),
    [
        ({"kind": "file", "path": PHILLY, "num_jobs": 200}, 10),
        ({"kind": "generator", "text": "generate:philly?jobs=100&queues=3"}, 3),
        ({"kind": "generator", "text": "generate:philly?jobs=100"}, 1),
    ],
)
def test_the_command_has_the_queues_of_the_page(source: dict[str, str], num_queues: int) -> None:
    """Names, quotas, weights, and the queue of each job; of a trace and of generated workloads."""
    of = Workload(source=source.get("path") or source["text"], num_jobs=source.get("num_jobs"), mix={})  # type: ignore[arg-type]  # a number
    command = prepare(Study(workload=of, cluster=CLUSTER), seed=0)
    base = {"servers": columns_to_json(server_table(CLUSTER)), "queues": None, "source": source, "least_gpus": 128}
    page = ready(base, Variant(arm=Arm(policy="fifo", locality="consolidate", mechanism="proportional")), seed=0)

    assert command.queue_names == page.prepared.queue_names
    assert len(command.queue_names) == num_queues
    for column in ("quota_gpus", "weight", "may_borrow", "max_gpus", "parent"):
        assert np.array_equal(getattr(command.queues, column), getattr(page.prepared.queues, column)), column
    assert [job.queue for job in command.trace.jobs] == [job.queue for job in page.prepared.trace.jobs]
