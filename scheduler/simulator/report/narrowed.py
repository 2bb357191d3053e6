"""Narrow a report to the queues that a user may see: the others become one, without names of jobs or users."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from scheduler.core.model.tables import NO_ROW
from scheduler.simulator.report.curves import Course, Gantt
from scheduler.simulator.report.figures import Figures

OTHERS = "other queues"


def narrowed(figures: Figures, own: Sequence[int], parents: Sequence[int]) -> Figures:
    """Return the figures with only the queues in ``own`` (rows) told apart, and only bars of their jobs.

    Figures of the cluster as a whole stay: how long jobs take and wait, how much is allocated.

    Args:
        figures: Of all queues.
        own: Rows of whole subtrees.
        parents: Row of the queue above each, NO_ROW at the top; parents stand before their children.
    """
    rows = [row for row in own if row < len(figures.queue_names)]
    rest = [row for row in range(len(figures.queue_names)) if row not in rows]
    place = {row: at for at, row in enumerate(rows)}
    shown = [at for at, queue in enumerate(figures.bar_queues) if queue in place]
    quotas = figures.queue_quotas
    others_gpus = _others_gpus(quotas, rows, parents)
    return replace(
        figures,
        queue_names=[*(figures.queue_names[row] for row in rows), OTHERS],
        queue_quotas=[*(quotas[row] for row in rows), others_gpus] if quotas else [],
        queue_waits=[figures.queue_waits[row] for row in rows] if figures.queue_waits else [],
        course=None if figures.course is None else _course(figures.course, rows, rest),
        gantt=None if figures.gantt is None else _gantt(figures.gantt, shown),
        bar_names=[figures.bar_names[at] for at in shown],
        bar_queues=[place[figures.bar_queues[at]] for at in shown],
        bar_gpus=[figures.bar_gpus[at] for at in shown],
    )


def _others_gpus(quotas: Sequence[int], own: Sequence[int], parents: Sequence[int]) -> int:
    """Return the GPUs that are guaranteed to the queues outside ``own``, each once.

    The quota of a queue contains those of the queues below it; above queues that alone have quotas it may be 0.
    """
    within, below = list(quotas), [0] * len(quotas)
    for row in reversed(range(len(quotas))):
        within[row] = max(quotas[row], below[row])
        if parents[row] != NO_ROW:
            below[parents[row]] += within[row]
    own_gpus = sum(within[row] for row in own if row < len(quotas) and parents[row] not in own)
    return sum(within[row] for row in range(len(quotas)) if parents[row] == NO_ROW) - own_gpus


def _course(course: Course, rows: Sequence[int], rest: Sequence[int]) -> Course:
    others = course.queues[:, rest].sum(axis=1, keepdims=True)
    return replace(course, queues=np.concatenate((course.queues[:, rows], others), axis=1))


def _gantt(seats: Gantt, shown: Sequence[int]) -> Gantt:
    return replace(seats, bars=tuple(seats.bars[at] for at in shown))


def unnamed(names: Sequence[str], own: Sequence[int]) -> list[str]:
    """Return names of queues with those of others left out, so that no sentence can tell them."""
    return [name if row in own else f"another queue ({row})" for row, name in enumerate(names)]
