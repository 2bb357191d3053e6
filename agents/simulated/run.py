"""Run simulated servers in real time, all of them in one process: ``python -m agents.simulated.run CONFIG ...``.

Each reads its own queue and writes its own list at the broker, as the agent of a real server does. Their state is
kept beside their configurations, so that the next start continues from it.
"""

import base64
import json
import logging
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import redis

from agents.config import config_load
from agents.logs import logging_set_up
from agents.protocol.clock import SystemClock
from agents.protocol.errors import ConfigInvalid
from agents.simulated.server import SimulatedServer, log_line
from agents.transport import RedisReportTransport

log = logging.getLogger(__name__)

BEAT_S = 1.0
KEEP_EVERY_S = 30.0
AWAY_S = 1.0


def message_of(item: bytes) -> str:
    """Return the desired state in an item of a Celery queue; empty when there is none in it."""
    try:
        arguments = json.loads(base64.b64decode(json.loads(item)["body"]))[0]
        return str(arguments[0])
    except (ValueError, KeyError, TypeError, IndexError):
        return ""


class SimulatedServers:
    """The servers of some configurations at one broker."""

    def __init__(self, paths: Sequence[Path]) -> None:
        configs = [config_load(path) for path in paths]
        transport = RedisReportTransport(configs[0].redis_url)
        self._redis = redis.Redis.from_url(configs[0].redis_url, socket_timeout=5.0)
        self._servers = {
            f"server.{config.server_id}": SimulatedServer(
                config, transport, SystemClock(), says=log_line(config.shared_dir)
            )
            for config in configs
        }
        self._files = dict(zip(self._servers, (path.with_suffix(".state") for path in paths), strict=True))
        for queue, file in self._files.items():
            if file.exists():
                self._servers[queue].go_on(file.read_text())
        self._beat_s = self._kept_s = time.monotonic()
        self.is_ending = False

    def run(self) -> None:
        """Run until ``is_ending``; a broker that is away costs a pause."""
        while not self.is_ending:
            try:
                self.turn()
            except (redis.RedisError, ConnectionError) as error:
                log.warning("broker_away", extra={"problem": str(error)})
                time.sleep(AWAY_S)
        self.keep()

    def turn(self) -> None:
        """Take what has arrived, and let the time since the last beat pass if that is long enough ago."""
        found = self._redis.brpop(list(self._servers), timeout=0.2)
        while found is not None:
            queue, item = found  # type: ignore[misc]  # the client is not async
            if self._servers[queue.decode()].receive(message_of(item)):
                self._beat_s -= BEAT_S  # a change is reported at once
            found = self._redis.brpop(list(self._servers), timeout=0.01)
        now_s = time.monotonic()
        if now_s - self._beat_s < BEAT_S:
            return
        for server in self._servers.values():
            server.work(min(now_s - self._beat_s, 10 * BEAT_S))
            server.send()
        self._beat_s = now_s
        if now_s - self._kept_s >= KEEP_EVERY_S:
            self._kept_s = now_s
            self.keep()

    def keep(self) -> None:
        """Write the state of the servers."""
        for queue, file in self._files.items():
            partial = file.with_suffix(".partial")
            partial.write_text(json.dumps(self._servers[queue].kept()))
            partial.replace(file)


def main(arguments: Sequence[str]) -> int:
    """Run until a signal comes."""
    logging_set_up()
    try:
        servers = SimulatedServers([Path(argument) for argument in arguments])
    except ConfigInvalid as error:
        sys.stderr.write(f"{error}\n")
        return 2

    def end(*_: object) -> None:
        servers.is_ending = True

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    servers.run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
