"""Presses Ctrl-C while ``manage.py`` starts: ``python -m tests.support.simulator.pressed_early CALLS COMMAND ...``.

The moment is so many calls of functions after the first of its own.
"""

import os
import runpy
import signal
import sys
from types import FrameType


def main() -> None:
    """Be ``manage.py``, and press Ctrl-C at the moment of the first argument."""
    moment, seen = int(sys.argv[1]), 0

    def called(frame: FrameType, _event: str, _argument: object) -> None:
        nonlocal seen
        seen += bool(seen) or (frame.f_code.co_filename.endswith("manage.py") and frame.f_code.co_name == "main")
        if seen == moment:
            sys.setprofile(None)
            os.kill(os.getpid(), signal.SIGINT)

    sys.argv[:2] = ["manage.py"]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.setprofile(called)
    runpy.run_path("manage.py", run_name="__main__")


if __name__ == "__main__":
    main()
