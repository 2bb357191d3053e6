"""On how many examples a property is tried: few by default, so that the suite stays quick, more where time is given."""

import os

from hypothesis import settings

# ``make test-long`` sets it; a longer hunt may set any number.
TIMES = int(os.environ.get("EXAMPLES_TIMES", "1"))


def tried(examples: int) -> settings:
    """Return settings under which a property is tried on so many examples, or on ``TIMES`` as many; always the same."""
    return settings(deadline=None, max_examples=examples * TIMES, derandomize=True)
