"""Start the agent of one server: ``AGENT_CONFIG=FILE python -m agents``."""

import os
import sys

from agents.config import config_from_environment
from agents.loop import take_lock
from agents.protocol.errors import AgentError, ConfigInvalid


def main() -> int:
    """Check what can be checked, then become the Celery worker."""
    try:
        config = config_from_environment(os.environ)
        os.close(take_lock(config.state_dir))  # the worker takes it for good; here a second agent gets one clear line
    except AgentError as error:
        sys.stderr.write(f"{error}\n")
        return os.EX_CONFIG if isinstance(error, ConfigInvalid) else 2
    worker = [sys.executable, "-m", "celery", "-A", "agents.celery_app", "worker", "-n", f"agent@{config.server_id}"]
    options = ["-Q", f"server.{config.server_id}", "-P", "threads", "-c", "4", "--loglevel", "INFO"]
    off = ["--without-gossip", "--without-mingle", "--without-heartbeat"]
    os.execv(sys.executable, [*worker, *options, *off])  # noqa: S606  (argv of our own)


if __name__ == "__main__":
    sys.exit(main())
