"""One published figure beside ours."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of ``docs/results.md``.

    Attributes:
        figure: What is measured, with its unit.
        published: What the paper says; empty when it gives no number.
        ours: What we got.
        setting: Cluster, workload, seeds and rounds, as short as they can be said.
        ratio: Ours over published; None when there is nothing to divide.
        note: Where and why ours differs, or what the figure leaves out.
    """

    figure: str
    published: str
    ours: str
    setting: str
    ratio: float | None = None
    note: str = ""


def against(figure: str, published: float, ours: float, unit: str, *, setting: str, note: str = "") -> Row:
    """Return the row of a figure that the paper gives as a number."""
    return Row(
        figure=figure,
        published=f"{published:g} {unit}".strip(),
        ours=f"{ours:.3g} {unit}".strip(),
        setting=setting,
        ratio=ours / published,
        note=note,
    )
