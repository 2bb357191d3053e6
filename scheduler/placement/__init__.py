"""Localities: which sets of servers a gang may use. One file each, one line each here."""

from scheduler.core.config import Locality
from scheduler.placement.consolidate import Consolidate

LOCALITIES: dict[str, type[Locality]] = {kind.name: kind for kind in (Consolidate,)}
