"""Shared set-up: a private state directory, so that no test touches ``var/``."""

import os
import tempfile

_STATE = tempfile.TemporaryDirectory(prefix="clusterweb-tests-")
os.environ["VAR_DIR"] = _STATE.name
os.environ.setdefault("ROUND_S", "10")
for name in ("REDIS_URL", "HOST", "PORT", "DEBUG"):
    os.environ.pop(name, None)
