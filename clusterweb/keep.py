"""Keep one command running: restart it when it dies, end it with this process, end when the parent is gone.

A command whose configuration cannot be used (exit status EX_CONFIG) has said so, and is not started again.

Used in the Procfile, so that a crashed web server does not take training down with it. In production systemd or the
container engine does the same.

    python -m clusterweb.keep [--after-broker] -- COMMAND ...
"""

import argparse
import os
import signal
import subprocess
import sys
import time

import redis

from clusterweb.config.env import load
from clusterweb.config.redis import redis_client

FIRST_DELAY_S = 0.2
LONGEST_DELAY_S = 5.0
# A command that ran this long had started well: the next restart is quick again.
HEALTHY_AFTER_S = 10.0
END_WITHIN_S = 8.0


class Keeper:
    """Owner of one child process."""

    def __init__(self, argv: list[str]) -> None:
        self.argv = argv
        self.parent_pid = os.getppid()
        self.ending = False
        self.child: subprocess.Popen[bytes] | None = None

    def end(self, *_: object) -> None:
        """Ask the child to end; called by a signal or when the parent is gone."""
        self.ending = True
        if self.child and self.child.poll() is None:
            self.child.terminate()

    def wait_for_broker(self) -> None:
        """Return when the broker answers, so that workers do not start with an error."""
        while not self.ending:
            try:
                redis_client(load().redis_url).ping()
                return
            except (redis.RedisError, OSError):
                time.sleep(0.05)

    def run(self) -> int:
        """Run the child until we are told to end; return its last exit status."""
        delay_s = FIRST_DELAY_S
        while not self.ending:
            started_s = time.monotonic()
            self.child = subprocess.Popen(self.argv)  # noqa: S603  (argv of our own Procfile)
            status = self._watch(self.child)
            if self.ending:
                return 0
            if status == os.EX_CONFIG:
                return status  # the next start would end alike
            healthy = time.monotonic() - started_s > HEALTHY_AFTER_S
            delay_s = FIRST_DELAY_S if healthy else min(LONGEST_DELAY_S, delay_s * 2)
            sys.stderr.write(f"{' '.join(self.argv[:4])} ended with status {status}; again in {delay_s:.1f} s\n")
            time.sleep(delay_s)
        return 0

    def _watch(self, child: "subprocess.Popen[bytes]") -> int:
        end_by_s: float | None = None
        while True:
            try:
                return child.wait(timeout=0.5)
            except subprocess.TimeoutExpired:
                pass
            if os.getppid() != self.parent_pid and not self.ending:
                self.end()
            if self.ending and end_by_s is None:
                end_by_s = time.monotonic() + END_WITHIN_S
            if end_by_s and time.monotonic() > end_by_s:
                child.kill()


def main() -> int:
    """Parse the command line and keep the command running."""
    parser = argparse.ArgumentParser(description="Run one command for ever.")
    parser.add_argument("--after-broker", action="store_true", help="wait until the broker answers")
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    keeper = Keeper(arguments.command)
    signal.signal(signal.SIGTERM, keeper.end)
    signal.signal(signal.SIGINT, keeper.end)
    if arguments.after_broker:
        keeper.wait_for_broker()
    return keeper.run()


if __name__ == "__main__":
    sys.exit(main())
