"""Draw which attempts fail, when and why, by the failure classes of the Philly study."""

import math
from collections.abc import Mapping

import numpy as np

from scheduler.core.model.tables import FloatArray, IntArray
from scheduler.core.operations.failures import FailureClass
from scheduler.simulator.draws import Draws
from scheduler.simulator.jobs import Failure

# An attempt that fails for a reason in the job fails again: as many attempts as Philly makes, the first included.
ATTEMPTS = 5

# Share of failing jobs by class, and its causes; causes of a class are equally likely.
_SHARES = (0.75, 0.15, 0.10)
_CAUSES = (
    (
        FailureClass.INCORRECT_INPUT,
        FailureClass.SYNTAX,
        FailureClass.IMPORT,
        FailureClass.GPU_OOM,
        FailureClass.CPU_OOM,
    ),
    (FailureClass.SEMANTIC,),
    (FailureClass.MPI, FailureClass.NETWORK, FailureClass.STORAGE, FailureClass.NODE),
)
# (median seconds, sigma of the logarithm) of the run time to the failure.
_USER_S, _SEMANTIC_S, _MACHINE_S = (120.0, 1.2), (2400.0, 1.5), (21_600.0, 1.3)
_SEMANTIC, _MACHINE = 1, 2


def chance_of_failure(num_gpus: IntArray) -> FloatArray:
    """Return (n,) the chance that a job has any failing attempt."""
    return np.where(num_gpus == 1, 0.20, np.where(num_gpus <= 4, 0.30, 0.40))


def failure_plans(draws: Draws, num_gpus: IntArray) -> Mapping[int, tuple[Failure, ...]]:
    """Return the failing attempts of the jobs that have any, by position.

    Errors of the user or of the program come back in every attempt until retries are used up; failures of machines
    and networks strike once.

    Source: Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters", ATC 2019, section 4: many short user
    errors, late semantic errors in large jobs, rare failures of infrastructure after long runs. Differs: the
    distributions are ours, shaped on that text.
    """
    size = len(num_gpus)
    fails = draws.uniform(size) < chance_of_failure(num_gpus)
    kind = draws.choice(size, _SHARES)
    which = draws.uniform(size)
    spread = draws.normal(size)
    plans = {}
    for index in np.flatnonzero(fails).tolist():
        causes = _CAUSES[kind[index]]
        median_s, sigma = (_USER_S, _SEMANTIC_S, _MACHINE_S)[kind[index]]
        if kind[index] == _SEMANTIC:
            median_s *= math.sqrt(num_gpus[index])
        after_s = max(1.0, round(median_s * math.exp(sigma * spread[index]), 3))
        failure = Failure(after_s=after_s, cause=causes[int(which[index] * len(causes))])
        plans[index] = (failure,) * (1 if kind[index] == _MACHINE else ATTEMPTS)
    return plans
