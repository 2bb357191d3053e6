"""Readers of an uploaded trace that go wrong, each by its name: ``python -m tests.support.live.odd_readers TASK``."""

import json
import os
import signal
import sys
import time


def main() -> None:
    """Be the reader that the name of the file in the task asks for."""
    name = json.loads(sys.argv[1])["name"]
    match name:
        case "tells its environment":
            print(json.dumps({"code": "told", "detail": json.dumps(dict(os.environ))}))
        case "is killed" | "breaks":
            os.kill(os.getpid(), signal.SIGKILL if name == "is killed" else signal.SIGSEGV)
        case "is silent":
            pass
        case "sleeps":
            time.sleep(3600)
        case "nests":
            print("[" * 10_000)
        case "babbles":
            while True:
                print("x" * 4096)


if __name__ == "__main__":
    main()
