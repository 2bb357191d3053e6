"""Chooses the values an experiment tries next: all of a grid in order, at random, or by TPE from earlier results.

At random means without replacement: no configuration is tried twice.

Source of TPE: Bergstra et al., "Algorithms for Hyper-Parameter Optimization", NeurIPS 2011, as implemented by Optuna.
"""

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from scheduler.core.spec.search_space import Parameter
from scheduler.core.spec.value_list import Value
from scheduler.simulator.draws import Draws

if TYPE_CHECKING:  # it takes a second to load, and only experiments need it
    from optuna.distributions import BaseDistribution
    from optuna.samplers import BaseSampler

SAMPLERS = ("random", "tpe", "grid")
# Of so many configurations a sample is drawn by their number; from more, values are drawn until one is new.
COUNTABLE = 10**12
MOST_DRAWN = 100_000  # configurations of one experiment; settings allow fewer
Tried = tuple[dict[str, Value], float | None]  # values, and the predicted final loss; None when unknown


def suggest(
    space: Sequence[Parameter], tried: Sequence[Tried], *, sampler: str, seed: int, count: int
) -> list[dict[str, Value]]:
    """Return the values of the next ``count`` configurations; the same history gives the same values.

    Args:
        space: The parameters.
        tried: All configurations so far, oldest first.
        sampler: One of SAMPLERS.
        seed: Of the experiment.
        count: How many.
    """
    size = grid_size(space)
    if sampler == "grid" or (sampler == "random" and size is not None and not any(one.log for one in space)):
        assert size is not None  # a grid has an end
        return [_at(space, number) for number in _numbers(size, sampler, seed)[len(tried) : len(tried) + count]]
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    distributions = {parameter.name: _distribution(parameter) for parameter in space}
    study = optuna.create_study(direction="minimize", sampler=_sampler(sampler, seed + len(tried)))
    for values, loss in tried if sampler != "random" else ():
        state = optuna.trial.TrialState.COMPLETE if loss is not None else optuna.trial.TrialState.RUNNING
        study.add_trial(
            optuna.trial.create_trial(state=state, params=dict(values), distributions=distributions, value=loss)
        )
    drawn = (dict(study.ask(fixed_distributions=distributions).params) for _ in range(count * 100))
    return _new_ones(drawn, [values for values, _ in tried], count) if sampler == "random" else _first(drawn, count)


def grid_size(space: Sequence[Parameter]) -> int | None:
    """Return how many configurations there are in all; None where they cannot be counted."""
    counts = [len(values) for one in space if (values := one.values) is not None]
    size = math.prod(counts)
    return size if len(counts) == len(space) and size <= COUNTABLE else None


def _numbers(size: int, sampler: str, seed: int) -> Sequence[int]:
    """Return the numbers of configurations in the order in which they are tried, each once."""
    if sampler == "grid":
        return range(size)
    draws = Draws(seed, "configurations")
    if size <= MOST_DRAWN:
        return [int(number) for number in draws.order(size)]
    drawn = (draws.uniform(2 * MOST_DRAWN) * size).astype(np.int64)
    return list(dict.fromkeys(drawn.tolist()))[:MOST_DRAWN]


def _at(space: Sequence[Parameter], number: int) -> dict[str, Value]:
    """Return one configuration of a grid; the last parameter changes first."""
    found: dict[str, Value] = {}
    for one in reversed(space):
        values = one.values or ()
        number, place = divmod(number, len(values))
        found[one.name] = values[place]
    return dict(reversed(found.items()))


def _new_ones(drawn: Iterator[dict[str, Value]], known: list[dict[str, Value]], count: int) -> list[dict[str, Value]]:
    """Return the first of what is drawn that was not tried; fewer where hardly anything new is left."""
    found: list[dict[str, Value]] = []
    for values in drawn:
        if len(found) == count:
            break
        if values not in known and values not in found:
            found.append(values)
    return found


def _first(drawn: Iterator[dict[str, Value]], count: int) -> list[dict[str, Value]]:
    return [values for values, _ in zip(drawn, range(count), strict=False)]


def _sampler(name: str, seed: int) -> "BaseSampler":
    import optuna

    if name == "random":
        return optuna.samplers.RandomSampler(seed=seed)
    return optuna.samplers.TPESampler(seed=seed)


def _distribution(parameter: Parameter) -> "BaseDistribution":
    from optuna import distributions

    if parameter.choices:
        return distributions.CategoricalDistribution(parameter.choices)
    if parameter.integer:
        return distributions.IntDistribution(int(parameter.low), int(parameter.high), log=parameter.log)
    return distributions.FloatDistribution(parameter.low, parameter.high, log=parameter.log)
