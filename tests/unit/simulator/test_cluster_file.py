"""Clusters from files: what they may hold, and what is said of each mistake."""

from pathlib import Path

import pytest

from scheduler.core.model.tables import NO_ROW
from scheduler.simulator.errors import BadInput
from scheduler.simulator.study.cluster import Cluster, ServerGroup, queue_table, server_table
from scheduler.simulator.study.cluster_file import read_cluster

GOOD = """
servers:
  - {count: 2, gpus: 8, cpus: 24, memory_gb: 500, rack: 1}
  - {gpus: 4, cpus: 64.5, memory_gb: 256}
queues:
  - {name: root, quota: 20}
  - {name: vision, parent: root, quota: 12, weight: 2, may_borrow: false, max: 16}
"""


def written(folder: Path, text: str, name: str = "cluster.yaml") -> Path:
    """Write the file."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_groups_and_queues_become_columns(tmp_path: Path) -> None:
    """Servers in the order of the groups, GB as 10^9 bytes, queues as a tree."""
    cluster = read_cluster(written(tmp_path, GOOD))
    servers = server_table(cluster)
    queues = queue_table(cluster.queues, cluster_gpus=cluster.num_gpus)

    assert servers.num_gpus.tolist() == [8, 8, 4]
    assert servers.num_cpus.tolist() == [24, 24, 64.5]
    assert servers.memory_bytes.tolist() == [500e9, 500e9, 256e9]
    assert servers.rack.tolist() == [1, 1, 0]
    assert queues.parent.tolist() == [NO_ROW, 0]
    assert queues.quota_gpus.tolist() == [20, 12]
    assert queues.max_gpus.tolist() == [20_000, 16]  # the first may hold everything, and never reaches its maximum
    assert queues.may_borrow.tolist() == [True, False]
    assert cluster.describe() == "2 servers x (8 GPUs, 24 cores, 500 GB) + 1 server x (4 GPUs, 64.5 cores, 256 GB)"


def test_json_and_a_plain_list_do_as_well(tmp_path: Path) -> None:
    """A list is one of server groups; a byte-order mark does no harm."""
    cluster = read_cluster(written(tmp_path, '\ufeff[{"gpus": 2, "cpus": 4, "memory_gb": 8}]', "c.json"))

    assert (cluster.num_servers, cluster.num_gpus, cluster.queues) == (1, 2, ())


def test_servers_are_spread_over_racks_in_order() -> None:
    """Six servers on two racks: three and three."""
    group = ServerGroup(count=6, gpus=1, cpus=1, memory_bytes=1)

    assert server_table(Cluster(groups=(group,), racks=2)).rack.tolist() == [0, 0, 0, 1, 1, 1]


SERVER = "gpus: 8, cpus: 24, memory_gb: 500"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("servers: []", "servers is empty"),
        ("3", "must hold `servers`"),
        ("servers: 3", "servers must be a list"),
        ("servers: [3]", r"servers\[0\] must be a mapping"),
        ("servers: [{gpus: 8, cpus: 24}]", r"servers\[0\]: memory_gb is missing"),
        (
            "servers: [{gpus: eight, cpus: 24, memory_gb: 1}]",
            "gpus must be a whole number of at least 1. It is 'eight'",
        ),
        ("servers: [{gpus: 2.5, cpus: 24, memory_gb: 1}]", "gpus must be a whole number"),
        ("servers: [{gpus: true, cpus: 24, memory_gb: 1}]", "gpus must be a whole number"),
        ("servers: [{gpus: 8, cpus: -1, memory_gb: 1}]", "cpus must be a number of at least 1"),
        ("servers: [{gpus: 8, cpus: .nan, memory_gb: 1}]", "cpus must be a number"),
        (f"servers: [{{{SERVER}, memory: 3}}]", "has no field memory. There is count"),
        (f"servers: [{{count: 100001, {SERVER}}}]", "100,001 servers are more than"),
        (f"servers: [{{{SERVER}}}]\nqueues: [{{quota: 1}}]", r"queues\[0\]: name is missing"),
        (f"servers: [{{{SERVER}}}]\nqueues: [{{name: a}}, {{name: a}}]", "queue a stands twice"),
        (f"servers: [{{{SERVER}}}]\nqueues: [{{name: a, parent: b}}]", "parent b, which does not stand before it"),
        (f"servers: [{{{SERVER}}}]\nqueues: [{{name: a, quota: 9}}]", "promise 9 GPUs. The cluster has 8"),
        (
            f"servers: [{{{SERVER}}}]\nqueues: [{{name: a, quota: 2}}, {{name: b, parent: a, quota: 3}}]",
            "below a are promised 3",
        ),
        (f"servers: [{{{SERVER}}}]\nqueues: [{{name: a, may_borrow: 1}}]", "may_borrow must be true or false"),
        ("servers: [", "is not YAML"),
    ],
)
def test_a_mistake_is_named_with_its_field(tmp_path: Path, text: str, says: str) -> None:
    """The file, the place in it, what is there and what would be right."""
    with pytest.raises(BadInput, match=says) as caught:
        read_cluster(written(tmp_path, text))

    assert "cluster.yaml" in str(caught.value)


def test_files_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    """Missing, binary, broken JSON."""
    with pytest.raises(BadInput, match="No such file"):
        read_cluster(tmp_path / "nothing.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadInput, match="not UTF-8"):
        read_cluster(tmp_path / "binary.yaml")
    with pytest.raises(BadInput, match="line 1 is not JSON"):
        read_cluster(written(tmp_path, "{", "c.json"))
