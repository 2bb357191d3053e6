"""Cores and memory in proportion to GPUs."""

from dataclasses import dataclass
from typing import ClassVar

from scheduler.core.model.cpu_memory_bounds import Needs, must_have
from scheduler.core.model.tables import JobTable, Placements, ServerTable
from scheduler.core.packing.board import Seated
from scheduler.core.packing.cpu_memory_ledger import ProportionalLedger
from scheduler.core.packing.draft import Draft, seat_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Proportional:
    """Every GPU brings the same share of its server's cores and memory, or what the owner insists on if that is more.

    Source: Mohan et al., "Synergy", OSDI 2022, the GPU-proportional baseline.
    """

    name: ClassVar[str] = "proportional"
    trims: ClassVar[bool] = False
    insists: ClassVar[bool] = False

    def grant(self, draft: Draft) -> Placements:
        """Return the seats of the draft as they are, each with its share."""
        return as_needed(draft)

    def ledger(self, jobs: JobTable, servers: ServerTable, needs: Needs) -> ProportionalLedger:
        """Return the shares from round to round."""
        return ProportionalLedger(needs)


def as_needed(draft: Draft) -> Placements:
    """Return the seats of the draft as they are, each with the cores and memory that it must have there."""
    seats = draft.seats
    job, server, gpus = seats.columns() if isinstance(seats, Seated) else seat_rows(seats)
    needs = draft.needs
    cpus = must_have(needs.cpus_least[job], needs.cpus_most[job], needs.cpus_share[server])
    memory = must_have(needs.memory_least[job], needs.memory_most[job], needs.memory_share[server])
    return Placements(job=job, server=server, num_gpus=gpus, cpus=gpus * cpus, memory_bytes=gpus * memory)
