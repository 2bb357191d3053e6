"""Policies: who runs first, and with how many GPUs. One file each, one line each here."""

from scheduler.core.round.config import Policy
from scheduler.policies.afs_l import AfsL
from scheduler.policies.afs_p import AfsP
from scheduler.policies.drf import Drf
from scheduler.policies.fair import Fair
from scheduler.policies.fifo import Fifo
from scheduler.policies.ftf import Ftf
from scheduler.policies.gittins import Gittins
from scheduler.policies.las import Las
from scheduler.policies.maxmin import Maxmin
from scheduler.policies.optimus import Optimus
from scheduler.policies.priority import Priority
from scheduler.policies.srsf import Srsf
from scheduler.policies.srtf import Srtf
from scheduler.policies.tetris import Tetris
from scheduler.policies.themis import Themis

# First those that order the jobs, then those that choose their shares too.
POLICIES: dict[str, type[Policy]] = {
    kind.name: kind
    for kind in (
        *(Fifo, Priority, Srtf, Srsf, Las, Gittins, Ftf, Drf, Tetris, Fair),
        *(Maxmin, Optimus, AfsL, AfsP, Themis),
    )
}
