"""Pin a process tree to cores. Used by supervisors and, while a job is measured, by the job itself."""

import os
from collections.abc import Iterable
from contextlib import suppress

from agents.host.tree import descendants


def pin_tree(root_pid: int, cores: Iterable[int], *, with_root: bool = True) -> None:
    """Limit every thread of a process and of all below it to these cores; what they start later inherits it.

    Without its root only those below. A thread that ends meanwhile, and a core that was taken offline, are no reason to
    fail.
    """
    wanted = set(cores)
    below = [stat.pid for stat in descendants(root_pid, thorough=False)]
    for pid in [root_pid, *below] if with_root else below:
        try:
            threads = os.listdir(f"/proc/{pid}/task")
        except OSError:
            continue
        for thread in threads:
            with suppress(OSError):
                os.sched_setaffinity(int(thread), wanted)
