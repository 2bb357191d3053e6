"""Names by which agent, supervisor and training process find each other when one starts the next.

Imports almost nothing: every start of a supervisor and of a training process waits for it.
"""

import os

# Directory from which ``agents`` can be imported.
CODE_PATH = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# What of it jobs may read: the runtime and what it imports, by both of its names.
JOB_CODE = tuple(os.path.join(CODE_PATH, name) for name in ("agents", "clusterweb_runtime"))
# In the environment of every process of an attempt.
ATTEMPT_MARK = "CLUSTERWEB_ATTEMPT_ID"
# Last argument of a supervisor that is started ahead of time: it reads its attempt's directory from standard input.
SPARE = "--spare"
# The same for one that also starts a training process ahead of time, as the user named after it; empty for our own.
WARM = "--warm="
