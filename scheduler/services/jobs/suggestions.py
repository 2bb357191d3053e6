"""Chooses the values an experiment tries next: at random, or by TPE from earlier results.

Source: Bergstra et al., "Algorithms for Hyper-Parameter Optimization", NeurIPS 2011, as implemented by Optuna.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from scheduler.core.spec.search_space import Parameter, Value

if TYPE_CHECKING:  # it takes a second to load, and only experiments need it
    from optuna.distributions import BaseDistribution
    from optuna.samplers import BaseSampler

SAMPLERS = ("random", "tpe")
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
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    distributions = {parameter.name: _distribution(parameter) for parameter in space}
    study = optuna.create_study(direction="minimize", sampler=_sampler(sampler, seed + len(tried)))
    for values, loss in tried if sampler != "random" else ():
        state = optuna.trial.TrialState.COMPLETE if loss is not None else optuna.trial.TrialState.RUNNING
        study.add_trial(
            optuna.trial.create_trial(state=state, params=dict(values), distributions=distributions, value=loss)
        )
    return [dict(study.ask(fixed_distributions=distributions).params) for _ in range(count)]


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
