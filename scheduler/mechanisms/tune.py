"""Cores and memory as much as a job can use, taken back where others would fall below their share."""

from dataclasses import dataclass, field
from typing import ClassVar

from scheduler.core.model.cpu_memory_bounds import Needs
from scheduler.core.model.tables import JobTable, Placements, ServerTable
from scheduler.core.packing.cpu_memory_ledger import CpuMemoryLedger
from scheduler.core.packing.draft import Draft
from scheduler.core.packing.fill import fill
from scheduler.core.packing.tune_by_server import TuneByServer, by_demand
from scheduler.mechanisms.top_up import top_up


@dataclass(frozen=True, slots=True, kw_only=True)
class Tune:
    """Every job gets what it needs for full speed where that fits, and never less than its share would give it.

    Source: Mohan et al., "Synergy", OSDI 2022, Tune. Differs: a running job stays on its servers, unless ``repack``; a
    demoted job keeps what it can use of its proportional share, not more; without ``repack`` what a server gives
    depends on the jobs on it alone, and a gang on several servers gets its share.
    """

    name: ClassVar[str] = "tune"
    trims: ClassVar[bool] = True
    insists: ClassVar[bool] = False

    sort_by_demand: bool = field(
        default=True,
        metadata={"help": "Place the widest and most demanding jobs first, as published; off: in the policy's order."},
    )
    top_up: bool = field(
        default=False,
        metadata={"help": "Give cores and memory that stay unused to the jobs that gain most. Not in the paper."},
    )

    repack: bool = field(
        default=False,
        metadata={"help": "Place all jobs anew in every round, as published; a job that changes servers is restarted."},
    )

    def grant(self, draft: Draft) -> Placements:
        """Return the seats with cores and memory; jobs that start now go where their demand fits."""
        grants = fill(draft, sort_by_demand=self.sort_by_demand)
        return top_up(grants, draft) if self.top_up else grants

    def ledger(self, jobs: JobTable, servers: ServerTable, needs: Needs) -> CpuMemoryLedger | None:
        """Return the servers kept from round to round; None where they depend on more than who sits there."""
        if self.repack or self.top_up or not self.sort_by_demand:
            return None
        return TuneByServer(servers, needs, jobs.num_gpus, by_demand(needs, jobs.num_gpus, jobs.job_id))
