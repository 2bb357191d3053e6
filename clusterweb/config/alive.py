"""Signs of life: files below ``VAR_DIR/alive`` that long-running threads touch, and the health check that reads them.

    python -m clusterweb.config.alive 60 engine engine-frames

fails unless each of these was touched within the last 60 seconds. A name may be the path of another file.
"""

import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

FOLDER = "alive"


def alive(var_dir: Path, name: str) -> None:
    """Say that the thread of this name goes on; a full or broken disk is not its fault."""
    path = var_dir / FOLDER / name
    with suppress(OSError):
        try:
            os.utime(path)
        except FileNotFoundError:
            path.parent.mkdir(exist_ok=True, mode=0o700)
            path.touch()


def silent(var_dir: Path, names: Sequence[str], *, for_s: float) -> list[str]:
    """Return which of the names have been silent for so long, or never said anything."""
    return [name for name in names if _age_s(var_dir / FOLDER / name) > for_s]


def _age_s(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return float("inf")


def main() -> int:
    """Be the health check of a container."""
    for_s, *names = sys.argv[1:]
    found = silent(Path(os.environ["VAR_DIR"]), names, for_s=float(for_s))
    if found:
        sys.stderr.write(f"Silent for {for_s} s: {', '.join(found)}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
