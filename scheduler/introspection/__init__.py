"""The registry of introspections: what may be tried on running jobs. One file and one line here for each."""

from scheduler.core.round.config import Introspection
from scheduler.introspection.growth import Growth
from scheduler.introspection.migration import Migration
from scheduler.introspection.packing import Packing
from scheduler.introspection.slicing import Slicing

INTROSPECTIONS: dict[str, type[Introspection]] = {kind.name: kind for kind in (Slicing, Packing, Migration, Growth)}
