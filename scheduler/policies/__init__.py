"""Policies: who runs first. One file each, one line each here."""

from scheduler.core.config import Policy
from scheduler.policies.drf import Drf
from scheduler.policies.fair import Fair
from scheduler.policies.fifo import Fifo
from scheduler.policies.ftf import Ftf
from scheduler.policies.gittins import Gittins
from scheduler.policies.las import Las
from scheduler.policies.priority import Priority
from scheduler.policies.srsf import Srsf
from scheduler.policies.srtf import Srtf
from scheduler.policies.tetris import Tetris

POLICIES: dict[str, type[Policy]] = {
    kind.name: kind for kind in (Fifo, Priority, Srtf, Srsf, Las, Gittins, Ftf, Drf, Tetris, Fair)
}
