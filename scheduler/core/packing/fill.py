"""Tune for a whole draft: every server from nothing."""

from scheduler.core.model.changes import placements
from scheduler.core.model.tables import Placements
from scheduler.core.packing.draft import Draft
from scheduler.core.packing.tune_by_server import TuneByServer, by_demand


def fill(draft: Draft, *, sort_by_demand: bool) -> Placements:
    """Return what every job of the draft holds.

    Args:
        draft: Gangs with their GPUs.
        sort_by_demand: The most demanding are served first on a server, and choose first; else in the order of the
            policy.
    """
    jobs = draft.jobs
    rank = by_demand(draft.needs, jobs.num_gpus, jobs.job_id)
    if not sort_by_demand:
        for place, row in enumerate(draft.seats):
            rank[row] = (float(place),)
    free = list(draft.room)
    for row in draft.movable:
        ((server, gpus),) = draft.seats[row]
        free[server] -= gpus
    ledger = TuneByServer(draft.servers, draft.needs, jobs.num_gpus, rank)
    return placements(ledger.sit(dict(draft.seats), draft.movable, free))
