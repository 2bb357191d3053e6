"""The registry of localities: which sets of servers a gang may use. One file and one line here for each."""

from scheduler.core.packing.locality import Locality
from scheduler.placement.affinity import Affinity
from scheduler.placement.any import AnyGpus
from scheduler.placement.consolidate import Consolidate
from scheduler.placement.relax import Relax
from scheduler.placement.skew import Skew

LOCALITIES: dict[str, type[Locality]] = {kind.name: kind for kind in (Consolidate, AnyGpus, Relax, Skew, Affinity)}
