"""A variant of a cluster: how it schedules, and what else differs from where a scenario starts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from scheduler.core.model.tables import QueueTable, ServerTable
from scheduler.core.spec.units import counted
from scheduler.simulator.errors import BadInput
from scheduler.simulator.jobs import SimJob
from scheduler.simulator.study.arms import Arm, short_names

ARM_FIELDS = (
    *("policy", "policy_options", "locality", "locality_options", "mechanism", "mechanism_options"),
    *("introspection", "introspection_options", "min_run_s"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One side of a comparison.

    Attributes:
        arm: How rounds decide.
        quotas: Quotas (GPUs) by name of the queue where they differ.
        servers: Servers more (of the commonest kind) or, below 0, less (the last ones).
        load: Factor on the rate at which jobs arrive.
    """

    arm: Arm
    quotas: Mapping[str, int] = field(default_factory=dict)
    servers: int = 0
    load: float = 1.0


def variant_from(data: Mapping[str, Any]) -> Variant:  # JSON, checked before
    """Return the variant that a checked document describes."""
    arm = {name: data[name] for name in ARM_FIELDS if name in data}
    arm["introspection"] = tuple(arm.get("introspection", ()))
    return Variant(
        arm=Arm(**arm),
        quotas=dict(data.get("quotas", {})),
        servers=int(data.get("servers", 0)),
        load=float(data.get("load", 1.0)),
    )


def variant_names(variants: Sequence[Variant]) -> list[str]:
    """Return names for people: what differs, in words; equal ones are numbered."""
    names = []
    for base, variant in zip(short_names([variant.arm for variant in variants]), variants, strict=True):
        parts = [base]
        if len({other.arm.min_run_s for other in variants}) > 1:
            parts.append(f"least run {variant.arm.min_run_s:g} s")
        if variant.servers:
            count = abs(variant.servers)
            parts.append(f"{count} {'server' if count == 1 else 'servers'} {'more' if variant.servers > 0 else 'less'}")
        if variant.load != 1.0:
            parts.append(f"load \u00d7{variant.load:g}")
        parts += [f"{queue} {counted(gpus, 'GPU')}" for queue, gpus in variant.quotas.items()]
        names.append(", ".join(parts))
    return [
        name if names.count(name) == 1 else f"{name} ({names[:at].count(name) + 1})" for at, name in enumerate(names)
    ]


def servers_with(servers: ServerTable, change: int) -> ServerTable:
    """Return the cluster with servers added or lost.

    Raises:
        BadInput: If none would be left.
    """
    size = len(servers)
    if size + change < 1:
        raise BadInput(f"{-change} servers less leave none: there are {size}.")
    rows = np.arange(size + min(0, change))
    if change > 0:
        rows = np.concatenate((rows, np.full(change, _commonest(servers))))
    added = np.arange(max(0, change)) + 1 + (int(servers.server_id.max()) if size else 0)
    server_id = np.concatenate((servers.server_id[: size + min(0, change)], added))
    return replace(servers.at(rows), server_id=server_id)


def _commonest(servers: ServerTable) -> int:
    """Return the first row of the kind of which there are most."""
    kinds = list(zip(servers.num_gpus.tolist(), servers.num_cpus.tolist(), servers.memory_bytes.tolist(), strict=True))
    return kinds.index(max(kinds, key=kinds.count))


def queues_with(queues: QueueTable, names: Sequence[str], quotas: Mapping[str, int]) -> QueueTable:
    """Return the queues with other quotas; a limit below a new quota rises to it.

    Raises:
        BadInput: If a queue is unknown.
    """
    missing = [name for name in quotas if name not in names]
    if missing:
        raise BadInput(f"There is no queue {missing[0]} here. There is {', '.join(list(names)[:8])}.")
    quota = queues.quota_gpus.copy()
    for name, gpus in quotas.items():
        quota[list(names).index(name)] = gpus
    return replace(queues, quota_gpus=quota, max_gpus=np.maximum(queues.max_gpus, quota))


def at_rate(jobs: Sequence[SimJob], factor: float) -> list[SimJob]:
    """Return the jobs arriving ``factor`` times as fast, from the first arrival on."""
    if factor == 1.0 or not jobs:
        return list(jobs)
    first_s = jobs[0].arrival_s
    return [replace(job, arrival_s=first_s + (job.arrival_s - first_s) / factor) for job in jobs]
