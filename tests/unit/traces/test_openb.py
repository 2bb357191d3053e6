"""Alibaba's openb pods and nodes."""

from pathlib import Path

from scheduler.simulator.traces import read_trace
from tests.support.simulator.traces import refusal_of, trace_of

HEADER = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
)
NODES = (
    "sn,cpu_milli,memory_mib,gpu,model\nopenb-node-0000,64000,262144,2,P100\nopenb-node-0001,96000,524288,8,V100M32\n"
)


def test_requests_are_what_a_pod_insists_on() -> None:
    """12 cores and 16 GiB on one server; the wait in Alibaba's own queue is not run time."""
    trace = trace_of(HEADER + "openb-pod-0000,12000,16384,1,1000,,LS,Succeeded,100,12537496,130\n")

    [job] = trace.jobs
    assert (job.arrival_s, job.run_s, job.num_gpus, job.max_servers) == (100.0, 12_537_366.0, 1, 1)
    assert (job.min_cpus, job.min_memory_bytes) == (12.0, 16 * 2**30)
    assert trace.queues == ("LS",)
    assert trace.servers is None
    assert trace.warnings == ("no openb_node_list_gpu_node.csv beside the pods: the servers are not known",)


def test_shares_of_a_gpu_become_whole_and_what_never_ran_is_left_out() -> None:
    """Each is counted: shares, named GPU types, pods without a GPU, pods without a begin or an end."""
    rows = [
        "a,6000,12288,1,460,,LS,Running,0,60,0",
        "b,6000,12288,2,1000,V100M16|V100M32,LS,Running,1,61,1",
        "c,6000,12288,0,0,,BE,Running,2,62,2",
        "d,6000,12288,1,1000,,BE,Pending,3,63,",
        "e,6000,12288,1,1000,,BE,Running,4,,4",
    ]

    trace = trace_of(HEADER + "\n".join(rows))

    assert [(job.name, job.num_gpus) for job in trace.jobs] == [("a", 1), ("b", 2)]
    assert trace.rows == 5
    assert trace.warnings[:4] == (
        "1 job with a share of a GPU, which gets a whole one",
        "1 job naming GPU types, which are not looked at",
        "1 job without a GPU and left out",
        "2 jobs that never started or did not end, left out",
    )


def test_nodes_beside_the_pods_are_the_servers(tmp_path: Path) -> None:
    """Nodes without a GPU are no servers for us."""
    (tmp_path / "pods.csv").write_text(HEADER + "a,6000,12288,1,460,,LS,Running,0,60,0\n", encoding="utf-8")
    nodes = NODES + "openb-node-0002,96000,524288,0,\n"
    (tmp_path / "openb_node_list_gpu_node.csv").write_text(nodes, encoding="utf-8")

    servers = read_trace(tmp_path / "pods.csv").servers

    assert servers is not None
    assert servers.num_gpus.tolist() == [2, 8]
    assert servers.num_cpus.tolist() == [64.0, 96.0]
    assert servers.memory_bytes.tolist() == [256 * 2**30, 512 * 2**30]


def test_errors_are_at_their_place() -> None:
    """An end before the start, more than a whole GPU for each."""
    backwards = refusal_of(HEADER + "a,6000,12288,1,460,,LS,Running,0,60,70\n")
    too_much = refusal_of(HEADER + "a,6000,12288,1,1500,,LS,Running,0,60,0\n")

    assert (backwards.line, backwards.column) == (2, "deletion_time")
    assert too_much.column == "gpu_milli"
