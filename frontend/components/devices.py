"""What the cluster's devices are called. A CPU slot is never called a GPU."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from frontend.components.formats import NBSP, number


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceWord:
    """Name of one and of many devices."""

    one: str
    many: str

    def counted(self, count: int) -> str:
        """Return ``1 GPU`` or ``8 GPUs``."""
        return f"{number(count)}{NBSP}{self.named(count)}"

    def named(self, count: int) -> str:
        """Return the word alone: ``GPU`` for one, ``GPUs`` for several."""
        return self.one if count == 1 else self.many

    def said(self, text: str, *, names: Iterable[str] = ()) -> str:
        """Return a sentence of the core, which always says GPU, with this word in its place, but not in ``names``."""
        kept = sorted((re.escape(name) for name in names if GPU_WORD.search(name)), key=len, reverse=True)
        words = {"GPU": self.one, "GPUs": self.many}
        return re.sub("|".join([*kept, GPU_WORD.pattern]), lambda found: words.get(found[0], found[0]), text)


# Also in "8-GPU jobs" and "GPU-hours", but not in a name such as big-GPU-job.
GPU_WORD = re.compile(r"(?<!\w)(?<![^\W\d]-)GPUs?(?!\w)(?!-(?!h\b|hours?\b|seconds?\b))")
GPUS = DeviceWord(one="GPU", many="GPUs")
CPU_SLOTS = DeviceWord(one="CPU slot", many="CPU slots")
MIXED = DeviceWord(one="device", many="devices")


def device_word(kinds: Iterable[str]) -> DeviceWord:
    """Return the word for a set of servers with these device kinds (``gpu``, ``cpu_slot``)."""
    present = {kind for kind in kinds if kind}
    if present == {"cpu_slot"}:
        return CPU_SLOTS
    return MIXED if "cpu_slot" in present else GPUS
