"""When a search reaches its target, with and without early feedback, in closed form.

Source: Xiao et al., "Gandiva", OSDI 2018.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchCase:
    """A search in which one configuration reaches the target.

    Attributes:
        configurations: How many there are.
        num_gpus: GPUs, one configuration on each at a time.
        run_s: One configuration from begin to end.
        winner: Number of the first configuration that reaches the target, from 0.
        winner_s: Its run time until then.
        feedback_s: Run time after which it is known how promising a configuration is.
    """

    configurations: int
    num_gpus: int
    run_s: float
    winner: int
    winner_s: float
    feedback_s: float


def found_in_order_s(search: SearchCase) -> float:
    """Return when the target is reached if configurations run to their end, one after the other on each GPU."""
    return search.winner // search.num_gpus * search.run_s + search.winner_s


def found_by_feedback_s(search: SearchCase) -> float:
    """Return when the target is reached if all run for the feedback first, and then the promising ones first."""
    if search.winner_s <= search.feedback_s:
        waves = search.winner // search.num_gpus
        return waves * search.feedback_s + search.winner_s
    slices_s = search.configurations * search.feedback_s / search.num_gpus
    return slices_s + search.winner_s - search.feedback_s
