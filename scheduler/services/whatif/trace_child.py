"""Checks one uploaded trace in a process of its own, ``python -m scheduler.services.whatif.trace_child TASK``.

The task is JSON; so is the answer on standard output, one line: ``{}``, or what to tell the owner of the file. The
process has no database and no broker. See ``trace_process`` for the other side.
"""

import json
import sys
from pathlib import Path

from clusterweb.config.children import limit_process
from clusterweb.config.trace_limits import TraceLimits
from scheduler.core.model.errors import SpecInvalid
from scheduler.services.whatif.trace_checks import trace_checked


def main() -> int:
    """Check the file of the task."""
    task = json.loads(sys.argv[1])
    limits = TraceLimits(**task["limits"])
    limit_process(cpu_s=limits.read_s, memory_bytes=limits.read_mib * 2**20)
    answer = {}
    try:
        trace_checked(Path(task["path"]), name=task["name"], limits=limits)
    except SpecInvalid as error:
        [problem] = error.errors
        answer = {"code": problem.code, "detail": problem.detail}
    except MemoryError:
        answer = {"code": "memory", "detail": f"Reading it takes more than {limits.read_mib:,} MiB of memory."}
    sys.stdout.write(json.dumps(answer) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
