"""Processes that read what strangers sent: what they are told by their environment, and how much they may use.

The parent starts such a process with ``child_environment()``, and the process calls ``limit_process`` before it reads
anything.
"""

import os
import resource
from collections.abc import Mapping

from clusterweb.config.env import BASE_DIR

# Where programs and libraries are, the language, where temporary files go. An allow-list, so that a key, a password or
# an address that is set one day stays out of it.
_KEPT = ("PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "PYTHONDONTWRITEBYTECODE")


def child_environment(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a process of our own code that needs no key, broker or database."""
    source = os.environ if environ is None else environ
    return {
        **{name: source[name] for name in _KEPT if name in source},
        "PYTHONPATH": str(BASE_DIR),
        # Address space is limited: no pools for threads, no arenas that are reserved ahead.
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MALLOC_ARENA_MAX": "2",
        "ARROW_DEFAULT_MEMORY_POOL": "system",
    }


def limit_process(*, cpu_s: int, memory_bytes: int) -> None:
    """Limit this process for good; the kernel ends it beyond the CPU time, and refuses memory beyond the bytes."""
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 1))
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.nice(5)  # pages and rounds go first
