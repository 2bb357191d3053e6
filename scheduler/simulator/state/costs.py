"""Cost of changing the GPUs of a running job under CoDDL's three resource managers.

``restart`` stops the job and starts it anew. ``concurrent`` lets it train while new workers start and pauses it for the
switch-over only. ``concurrent-cancel`` also drops a change that is overtaken by a newer one before its workers are up.
"""

import json
import math
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

# Written by ``python -m benchmarks.runtime gangs``.
MEASURED = Path(__file__).resolve().parents[3] / "fixtures" / "costs" / "reconfiguration.json"


class Manager(StrEnum):
    """How a running job is reconfigured."""

    RESTART = "restart"
    CONCURRENT = "concurrent"
    CONCURRENT_CANCEL = "concurrent-cancel"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconfigurationCosts:
    """Cost model of a manager, all times in seconds; the ``Costs`` of a replay.

    Attributes:
        manager: How jobs are reconfigured.
        init_s: Start of new workers: processes, framework, CUDA.
        switch_s: Switch-over to the new group of workers, beside what grows with their number.
        switch_per_doubling_s: Switch-over for every doubling of the workers, the first counted too.
        cancel_s: Until the GPUs of workers that are no longer wanted are free.
        debounce_s: Changes that come within this time of the first are taken as one, the last.

    Source: Hwang et al., "AFS", NSDI 2021, section 5 (CoDDL); the numbers are those of the ElasticFlow simulator (Gu et
    al., ASPLOS 2023), rounded. Differs: the papers give no formula for the switch-over. They are the defaults because
    the papers are reproduced with them; ``measured`` has ours.
    """

    manager: Manager = Manager.CONCURRENT_CANCEL
    init_s: float = 30.0
    switch_s: float = 2.0
    switch_per_doubling_s: float = 2.0
    cancel_s: float = 0.5
    debounce_s: float = 1.0

    @staticmethod
    def measured(manager: Manager = Manager.CONCURRENT_CANCEL, *, path: Path = MEASURED) -> "ReconfigurationCosts":
        """Return the costs that were measured on this product's own runtime. Raises OSError, ValueError."""
        found = json.loads(path.read_text(encoding="utf-8"))
        names = ("init_s", "switch_s", "switch_per_doubling_s", "cancel_s", "debounce_s")
        return ReconfigurationCosts(manager=manager, **{name: float(found[name]) for name in names})

    def switch_over_s(self, num_gpus: int) -> float:
        """Return how long a job stands still while a group of so many workers is formed."""
        return self.switch_s + self.switch_per_doubling_s * (math.log2(num_gpus) + 1)

    def pause_s(self, *, first: bool, before_gpus: int, num_gpus: int) -> float:
        """Return for how long a job that begins on new seats makes no progress.

        A growing job goes on at its old speed while new workers start; what it misses meanwhile is counted in
        proportion to the GPUs. First starts are free: the run times of traces contain them.
        """
        if first:
            return 0.0
        pause_s = self.switch_over_s(num_gpus)
        if self.manager == Manager.RESTART or not before_gpus:
            return self.init_s + pause_s
        return pause_s + self.init_s * max(0.0, 1 - before_gpus / num_gpus)
