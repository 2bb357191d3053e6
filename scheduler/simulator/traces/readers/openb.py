"""Alibaba's GPU cluster of 2023 (openb): a list of pods, and beside it a list of nodes."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from scheduler.core.model.tables import ServerTable
from scheduler.simulator.traces.collect import Collector
from scheduler.simulator.traces.reader import delimited
from scheduler.simulator.traces.row import MOST_GPUS, Row, rows_of
from scheduler.simulator.traces.source import Source
from scheduler.simulator.traces.trace import Trace

COLUMNS = (
    "name",
    "cpu_milli",
    "memory_mib",
    "num_gpu",
    "gpu_milli",
    "creation_time",
    "deletion_time",
    "scheduled_time",
)
NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
NODE_FILE = "openb_node_list_gpu_node.csv"

_MIB = 2**20
_WHOLE_GPU = 1000


def read(source: Source, profiles: Path) -> Trace:
    """Return the trace: pods with GPUs that ran to an end, each on one server, with the cores and memory they request.

    The servers are those of ``openb_node_list_gpu_node.csv`` in the same folder, when it is there.

    Source: cluster-trace-gpu-v2023 of alibaba/clusterdata. Differs: a share of a GPU becomes a whole one; the GPU types
    that a pod may use are not looked at.
    """
    collected = Collector(format="openb", file=source.name)
    for row in rows_of(source, COLUMNS):
        _take(row, collected)
    nodes = Path(source.name).parent / NODE_FILE
    if not nodes.is_file():
        collected.say(f"no {NODE_FILE} beside the pods: the servers are not known")
        return collected.trace()
    return replace(collected.trace(), servers=read_nodes(nodes))


def _take(row: Row, collected: Collector) -> None:
    num_gpus = row.whole("num_gpu", least=0, most=MOST_GPUS)
    milli = row.whole("gpu_milli", least=0, most=_WHOLE_GPU)
    min_cpus = row.number("cpu_milli", least=0, most=1e9) / 1000
    min_memory_bytes = row.number("memory_mib", least=0, most=1e12) * _MIB
    created_s = row.seconds("creation_time")
    if not num_gpus:
        collected.leave_out("without a GPU and left out")
        return
    if not (row.text("scheduled_time") and row.text("deletion_time")):
        collected.leave_out("that never started or did not end, left out")
        return
    scheduled_s, deleted_s = row.seconds("scheduled_time"), row.seconds("deletion_time")
    if deleted_s < scheduled_s:
        row.refuse("deletion_time", f"a time not before scheduled_time, {scheduled_s:g}")
    if milli < _WHOLE_GPU:
        collected.count("with a share of a GPU, which gets a whole one")
    if row.text("gpu_spec"):
        collected.count("naming GPU types, which are not looked at")
    collected.add(
        line=row.line,
        id=row.text("name"),
        id_column="name",
        arrival_s=created_s,
        num_gpus=num_gpus,
        run_s=deleted_s - scheduled_s,
        queue=row.text("qos"),
        max_servers=1,
        min_cpus=min_cpus,
        min_memory_bytes=min_memory_bytes,
    )


def read_nodes(place: Path) -> ServerTable:
    """Return the nodes that have GPUs, all in one rack.

    Raises:
        TraceError: If the file cannot be read without guessing.
    """
    source = Source(place)
    rows: list[tuple[int, float, float]] = []
    try:
        for row in rows_of(source, NODE_COLUMNS):
            gpus = row.whole("gpu", least=0, most=MOST_GPUS)
            cpus = row.number("cpu_milli", least=0, most=1e9) / 1000
            memory_bytes = row.number("memory_mib", least=0, most=1e12) * _MIB
            if gpus:
                rows.append((gpus, cpus, memory_bytes))
    finally:
        source.close()
    return _table(rows)


def _table(rows: Sequence[tuple[int, float, float]]) -> ServerTable:
    return ServerTable(
        server_id=np.arange(1, len(rows) + 1, dtype=np.int64),
        num_gpus=np.array([gpus for gpus, _, _ in rows], dtype=np.int64),
        num_cpus=np.array([cpus for _, cpus, _ in rows], dtype=np.float64),
        memory_bytes=np.array([memory for _, _, memory in rows], dtype=np.float64),
        rack=np.zeros(len(rows), dtype=np.int64),
    )


READER = delimited(COLUMNS, read)
