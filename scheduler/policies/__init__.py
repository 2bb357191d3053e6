"""Policies: who runs first. One file each, one line each here."""

from scheduler.core.config import Policy
from scheduler.policies.fifo import Fifo
from scheduler.policies.las import Las
from scheduler.policies.srtf import Srtf

POLICIES: dict[str, type[Policy]] = {kind.name: kind for kind in (Fifo, Srtf, Las)}
