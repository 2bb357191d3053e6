"""The registry of policies: which jobs run first, or with how many GPUs each. One file and one line here for each.

Forms, REST answers, the command line and ``--choices`` are drawn from this registry.
"""

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

# Policies that order the jobs, then policies that also choose how many GPUs each gets.
POLICIES: dict[str, type[Policy]] = {
    kind.name: kind
    for kind in (
        *(Fifo, Priority, Srtf, Srsf, Las, Gittins, Ftf, Drf, Tetris, Fair),
        *(Maxmin, Optimus, AfsL, AfsP, Themis),
    )
}
