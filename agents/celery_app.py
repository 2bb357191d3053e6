"""Celery application of one agent: its own queue and its own user at the broker.

Never loads Django. Remote control, events, gossip, mingle and results are off: each needs keys or channels that an
agent's user may not touch, and their messages are not signed.
"""

import logging
import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from celery import Celery, bootsteps
from celery.signals import setup_logging
from celery.worker.consumer import Consumer
from kombu.entity import Queue

from agents.config import AgentConfig, config_from_environment
from agents.logs import logging_set_up
from agents.loop import AgentLoop
from agents.protocol.errors import AlreadyRunning, ConfigInvalid
from agents.transport import RedisReportTransport

log = logging.getLogger(__name__)


class PatientConsumer(Consumer):  # type: ignore[misc]  # Celery has no types
    """Reconnects to the broker within seconds and survives unreadable queue items.

    Jobs are frozen when their lease is not renewed, so Celery's half a minute between attempts is too long.
    """

    loop: Callable[..., Any]  # Celery's event loop

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # Celery's own
        super().__init__(*args, **kwargs)
        self.loop = partial(_loop_past_garbage, self.loop)

    def ensure_connected(self, conn: Any) -> Any:  # kombu's connection
        """Connect, retrying after at most two seconds instead of thirty."""
        conn.ensure_connection = partial(conn.ensure_connection, interval_start=0.5, interval_step=0.5, interval_max=2)
        return super().ensure_connected(conn)


def _loop_past_garbage(loop: Callable[..., Any], *args: Any) -> Any:  # Celery's own
    """Run Celery's event loop; reconnect after a queue item that kombu cannot read, which would end the worker."""
    try:
        return loop(*args)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        log.warning("unreadable_item_in_queue", extra={"problem": f"{type(error).__name__}: {error}"[:200]})
        raise ConnectionError("unreadable item in the queue") from error


class AgentStep(bootsteps.StartStopStep):  # type: ignore[misc]  # Celery has no types
    """Runs the agent's thread for as long as the worker runs, broker or not."""

    loop: AgentLoop | None = None

    def start(self, worker: Any) -> None:  # Celery's worker
        """Start the agent, or end the worker when another one has the state directory."""
        config = config_from_environment(os.environ)
        try:
            AgentStep.loop = AgentLoop(config, RedisReportTransport(config.redis_url))
        except AlreadyRunning as error:
            sys.stderr.write(f"{error}\n")
            raise SystemExit(1) from None
        AgentStep.loop.start()

    def stop(self, worker: Any) -> None:  # Celery's worker
        """End the agent; its jobs go on training."""
        if AgentStep.loop is not None:
            AgentStep.loop.stop()
            AgentStep.loop = None

    terminate = stop

    @classmethod
    def receive(cls, message: str) -> None:
        """Hand a message to the agent."""
        if cls.loop is not None:
            cls.loop.receive(message)


agent_step = AgentStep


def make_app(config: AgentConfig) -> Celery:
    """Return the application of one agent."""
    made = Celery("agents", include=["agents.tasks"], fixups=[])
    queue = f"server.{config.server_id}"
    made.conf.update(
        broker_url=config.celery_broker_url,
        # No shared keys for unacknowledged messages, no redelivery: a lost message is sent again anyway.
        broker_transport_options={"ack_emulation": False, "socket_keepalive": True},
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_pool_limit=1,
        task_queues=[Queue(queue, exchange=queue, routing_key=queue)],  # type: ignore[no-untyped-call]
        task_default_queue=queue,
        task_create_missing_queues=False,
        task_serializer="json",
        accept_content=["json"],
        task_ignore_result=True,
        task_acks_late=False,
        worker_prefetch_multiplier=1,
        worker_concurrency=4,
        worker_pool="threads",
        worker_consumer="agents.celery_app:PatientConsumer",
        worker_enable_remote_control=False,
        worker_send_task_events=False,
        worker_hijack_root_logger=False,
    )
    made.steps["worker"].add(AgentStep)
    return made


def _app() -> Celery:
    try:
        return make_app(config_from_environment(os.environ))
    except ConfigInvalid as error:
        sys.stderr.write(f"{error}\n")
        raise SystemExit(2) from None


@setup_logging.connect(weak=False)  # type: ignore[untyped-decorator]  # Celery has no types
def _set_up_logging(**_: object) -> None:
    """Replace Celery's own set-up, which drops the fields of an event."""
    logging_set_up()


app = _app()
