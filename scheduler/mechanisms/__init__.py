"""The registry of mechanisms: how cores and memory are given. One file and one line here for each."""

from scheduler.core.round.config import Mechanism
from scheduler.mechanisms.greedy import Greedy
from scheduler.mechanisms.opt import Opt
from scheduler.mechanisms.proportional import Proportional
from scheduler.mechanisms.tune import Tune

MECHANISMS: dict[str, type[Mechanism]] = {kind.name: kind for kind in (Proportional, Greedy, Tune, Opt)}
