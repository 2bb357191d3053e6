"""One measured figure of the runtime beside its target."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One line of ``docs/runtime.md``.

    Attributes:
        name: What is measured, with its unit.
        target: What it should be, such as "at most 0.5 s"; empty when there is none.
        value: What it is.
        is_met: Whether the value keeps the target; None without a target or where it could not be measured.
        setting: Workload, slots, repetitions, and what the value is of them (median, largest), as short as can be said.
        note: What the figure leaves out, or why the target is missed.
        curves: How a value went over time, by name: (seconds, value) where it changed.
    """

    name: str
    target: str
    value: str
    is_met: bool | None
    setting: str
    note: str = ""
    curves: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)
