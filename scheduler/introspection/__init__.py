"""What may be tried on running jobs. Each is one file and one line here."""

from scheduler.core.round.config import Introspection
from scheduler.introspection.growth import Growth
from scheduler.introspection.migration import Migration
from scheduler.introspection.packing import Packing
from scheduler.introspection.slicing import Slicing

INTROSPECTIONS: dict[str, type[Introspection]] = {kind.name: kind for kind in (Slicing, Packing, Migration, Growth)}
