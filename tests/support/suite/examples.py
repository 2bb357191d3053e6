"""On how many examples a property is tried, and which.

``make test`` tries few, the same in every run. ``make test-all`` sets ``EXAMPLES=full``: many more, others in each
run, and a failure prints how to repeat it.
"""

import os

from hypothesis import settings

IS_FULL = os.environ.get("EXAMPLES") == "full"
# Of the number that a test names.
_QUICK, _FULL = 0.25, 1.5
_FEWEST = 3

# No test may fail because the machine is busy.
settings.register_profile("quick", deadline=None, derandomize=True, database=None, max_examples=25)
settings.register_profile("full", deadline=None, database=None, print_blob=True, max_examples=150)


def tried(examples: int) -> settings:
    """Return settings under which a property is tried on a quarter of so many examples, or on half as many again."""
    return settings(max_examples=max(_FEWEST, round(examples * (_FULL if IS_FULL else _QUICK))))
