"""Unpacks one archive in a process of its own, ``python -m scheduler.services.code.archive_child TASK``.

The task is JSON; so is the answer, one line: ``{}`` once the contents and ``manifest.json`` are in the target, or what
to tell the user. The process has no database and no broker. See ``archives`` for the other side.
"""

import errno
import json
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agents.protocol.code import CodeLimits, CodeManifest, CodeRefused
from clusterweb.config.children import limit_process
from scheduler.services.code.archive_reading import archive_unpack

MANIFEST = "manifest.json"
NO_ROOM = "no_room"


def main() -> int:
    """Unpack the archive of the task, within limits."""
    sys.stdout.write(json.dumps(unpack(limited_task())) + "\n")
    return 0


def limited_task() -> dict[str, Any]:  # JSON of ours
    """Return the task, once this process and all that it starts are limited to what the task allows."""
    task: dict[str, Any] = json.loads(sys.argv[1])
    limit_process(cpu_s=task["cpu_s"], memory_bytes=task["memory_bytes"])
    most_bytes = task["limits"]["num_bytes"] + 1
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
    return task


def unpack(task: dict[str, Any]) -> dict[str, str]:  # JSON of ours
    """Return the answer to a task."""
    return answer_of(task, lambda target, limits: archive_unpack(Path(task["path"]), target, limits))


def answer_of(task: dict[str, Any], make: Callable[[Path, CodeLimits], CodeManifest]) -> dict[str, str]:
    """Return what to say of a folder that ``make`` unpacks into the target; its manifest is written beside it."""
    target = Path(task["target"])
    try:
        (target / MANIFEST).write_bytes(make(target, CodeLimits(**task["limits"])).encode())
    except CodeRefused as refused:
        return {"code": refused.code, "detail": refused.detail}
    except MemoryError:
        return {"code": "size", "detail": "Unpacking the folder takes too much memory."}
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        return {"code": NO_ROOM, "detail": ""}
    return {}


if __name__ == "__main__":
    sys.exit(main())
