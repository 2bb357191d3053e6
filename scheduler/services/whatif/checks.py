"""Checks what a scenario asks: a document of plain JSON, field by field.

``name``; ``start`` with a ``kind`` (``live``, ``past``, ``trace``, ``generator``) and what the kind needs; two to six
``variants``; ``seeds``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User
from django.db.models import Q

from scheduler.core.model.lifecycle import PLANNABLE
from scheduler.core.model.plan import WaitReason
from scheduler.models import Job, TraceFile
from scheduler.selectors.jobs.estimates import jobs_with_run_time
from scheduler.services.inputs import Problems
from scheduler.services.whatif.fields import Json, checked_number, refuse_unknown
from scheduler.services.whatif.start_checks import checked_start
from scheduler.services.whatif.variant_checks import checked_variants
from scheduler.simulator.forecasts.run_times import LEAST_ENDED_OF_ALL

MOST_SEEDS = 10
MOST_RUNS = 30
MOST_SEED = 2**31
NAME_CHARS = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A checked scenario."""

    name: str
    start: Json
    variants: list[Json]
    seeds: list[int]
    trace_file: TraceFile | None


def scenario_checked(body: Mapping[str, Any], *, actor: User) -> Asked:
    """Return the scenario that ``body`` describes.

    Raises:
        SpecInvalid: One entry per bad field.
    """
    problems = Problems()
    refuse_unknown(problems, body, ("name", "start", "variants", "seeds"), at="")
    name = body.get("name")
    name = problems.text("name", name if isinstance(name, str) else "", least=1, most=NAME_CHARS)
    start, file = checked_start(problems, body.get("start"), actor)
    variants = checked_variants(problems, body.get("variants"), kind=start.get("kind", ""))
    seeds = _seeds(problems, body.get("seeds", [0]))
    if len(variants) * len(seeds) > MOST_RUNS:
        problems.add(
            "seeds", "count", f"{len(variants)} variants with {len(seeds)} seeds are more than {MOST_RUNS} runs."
        )
    problems.refuse()
    return Asked(name=name, start=start, variants=variants, seeds=seeds, trace_file=file)


def refuse_without_history() -> None:
    """Refuse a start from the live cluster when the run times of its jobs are unknown: every run would fail.

    Raises:
        SpecInvalid: Running or waiting jobs do not report progress, and too few have completed.
    """
    problems = Problems()
    under_way = Job.objects.filter(state__in=sorted(PLANNABLE), wanted="run").exclude(wait_reason=WaitReason.BACKOFF)
    silent = under_way.filter(Q(total_steps=None) | Q(total_steps=0) | Q(steps_per_s=None) | Q(steps_per_s=0)).count()
    ended = jobs_with_run_time()[:LEAST_ENDED_OF_ALL].count()
    missing = LEAST_ENDED_OF_ALL - ended
    if silent and missing > 0:
        problems.add(
            "start/kind",
            "no_history",
            f"{silent} of {under_way.count()} jobs that run or wait do not tell yet how long they take, and {ended} "
            f"have completed, where {LEAST_ENDED_OF_ALL} are needed to guess it. Ask again when "
            f"{missing} more {'has' if missing == 1 else 'have'} completed, or start from a trace or a generator.",
        )
    problems.refuse()


def _seeds(problems: Problems, seeds: object) -> list[int]:
    if not isinstance(seeds, list) or not 1 <= len(seeds) <= MOST_SEEDS:
        problems.add("seeds", "count", f"seeds must be a list of 1 to {MOST_SEEDS} whole numbers.")
        return []
    found = [
        int(checked_number(problems, f"seeds/{index}", seed, 0, MOST_SEED, whole=True, label="seed"))
        for index, seed in enumerate(seeds)
    ]
    if len(set(found)) != len(found):
        problems.add("seeds", "twice", "Each seed may stand once.")
    return found
