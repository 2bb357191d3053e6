"""On how many examples a property is tried, and which.

``make test`` tries few. ``make test-all`` sets ``EXAMPLES=full``: many more. Both try the same ones in every run, so
that a failure comes from the change and not from the draw. ``EXAMPLES=random`` draws others in each run, to look for
defects that no example shows yet; a failure prints how to repeat it.
"""

import os

from hypothesis import settings
from hypothesis.internal.conjecture import providers

PROFILE = os.environ.get("EXAMPLES", "quick")
IS_FULL = PROFILE != "quick"
# Of the number that a test names.
_QUICK, _FULL = 0.25, 1.0
_FEWEST = 3

if PROFILE != "random":
    # One draw in twenty is a number or word that stands in a module loaded so far, so the examples of a test would
    # change with the tests that run before it, and with each change of the product. There is no public setting for it.
    providers.HypothesisProvider._local_constants = type(providers.GLOBAL_CONSTANTS)()  # type: ignore[assignment]

# No test may fail because the machine is busy.
settings.register_profile("quick", deadline=None, derandomize=True, database=None, max_examples=25)
settings.register_profile("full", deadline=None, derandomize=True, database=None, max_examples=100)
settings.register_profile("random", deadline=None, database=None, print_blob=True, max_examples=100)


def tried(examples: int) -> settings:
    """Return settings under which a property is tried on so many examples, or by ``make test`` on a quarter of them."""
    return settings(max_examples=max(_FEWEST, round(examples * (_FULL if IS_FULL else _QUICK))))
