"""Limits of a job spec; the JSON Schema and the error messages state the same numbers."""

import re

API_VERSION = "v1"

# A name of a job and of a file: what is safe in a path, a URL, a shell line and a page.
PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
NAME_CHARS = 80
QUEUE_CHARS = 120
ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
LABEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,62}")
LABEL_CHARS = 120

COMMAND_ITEMS = 1024
COMMAND_ITEM_BYTES = 64 * 1024  # Linux takes at most 128 KiB in one argument
COMMAND_BYTES = 256 * 1024  # of all arguments together
FILES = 64
FILES_BYTES = 1024 * 1024  # of all files together
ENV_ENTRIES = 128
ENV_VALUE_BYTES = 32 * 1024
ENV_BYTES = 256 * 1024  # of all names and values together
LABELS = 32
ARRAY_JOBS = 1_000  # submitted together
ARRAY_INDEX = 999_999
ARRAY_CHARS = 400
DEPENDENCIES = 16
VENV_BYTES = 1024  # of a path of a Python environment
ENVIRONMENT_FILE_BYTES = 1024 * 1024  # of one file that it is built from

# Signals that a job can catch; the first is sent unless its spec names another.
STOP_SIGNALS = ("TERM", "INT", "HUP", "USR1", "USR2")

# Names that say how the process is launched: they are the agent's, not the user's.
RESERVED_ENV_PREFIXES = ("CLUSTERWEB_", "LD_")
RESERVED_ENV = frozenset({"PATH", "PYTHONPATH", "CUDA_VISIBLE_DEVICES"})

GPUS = (1, 4096)
SERVERS = (1, 4096)
CPUS = (0.1, 65_536.0)
MEMORY_BYTES = (16 * 2**20, 2**50)
DISK_BYTES = (2**20, 2**50)
PRIORITY = (0, 100)
DURATION_S = (1.0, 365 * 24 * 3600.0)
GRACE_S = (1.0, 3600.0)
WARN_BEFORE_S = (1.0, 24 * 3600.0)
STALL_S = (5.0, 7 * 24 * 3600.0)
RETRIES = (0, 100)
STEPS = (1, 10**15)

DEFAULT_DISK_BYTES = 2 * 2**30
DEFAULT_GRACE_S = 30.0  # from a request to the signal, and from the signal to SIGKILL; sent with every order
ERRORS = 100  # entries in one answer; a spec with more is not a slip of the pen
