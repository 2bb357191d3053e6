"""Runs outbox and sender in threads of every worker that consumes the queue ``notices``."""

import logging
from collections import defaultdict
from concurrent.futures import Future, ThreadPoolExecutor

from django.db import connections

from scheduler.models import Delivery
from scheduler.notices.outbox import DeliveryOutbox
from scheduler.notices.sender import deliver, due
from scheduler.ports import Ports, live_ports
from scheduler.worker_step import RepeatingThreads, WorkerStep

log = logging.getLogger(__name__)

LOOK_EVERY_S = 0.5
SENDERS = 4
MOST_AT_ONCE = 20  # messages to one receiver before the next receiver


class Notices:
    """Turns new events into deliveries and gives due deliveries to the senders.

    Each receiver is served by one sender at a time, so that a receiver that does not answer delays no other.
    """

    def __init__(self, ports: Ports, senders: ThreadPoolExecutor) -> None:
        self._ports = ports
        self._senders = senders
        self._outbox = DeliveryOutbox()
        self._busy: dict[tuple[int | None, int | None], Future[None]] = {}

    def tick(self) -> None:
        """Look for new events and due deliveries once."""
        at = self._ports.clock.now()
        self._outbox.look(at)
        self._busy = {key: future for key, future in self._busy.items() if not future.done()}
        by_receiver: dict[tuple[int | None, int | None], list[Delivery]] = defaultdict(list)
        for delivery in due(at):
            by_receiver[delivery.webhook_id, delivery.mail_id].append(delivery)
        for key, deliveries in by_receiver.items():
            if key not in self._busy:
                self._busy[key] = self._senders.submit(self._send, deliveries[:MOST_AT_ONCE])

    def _send(self, deliveries: list[Delivery]) -> None:
        """Send until one fails; the rest for this receiver waits for the next look."""
        try:
            for delivery in deliveries:
                if not deliver(delivery, at=self._ports.clock.now()):
                    break
        except Exception:  # a defect must cost one receiver its turn, not the worker
            log.exception("notice_failed")
        finally:
            connections.close_all()


class NoticesStep(WorkerStep):
    """Starts outbox and senders with the worker of the queue ``notices``; messages being sent are finished."""

    queue = "notices"

    def begin(self, threads: RepeatingThreads) -> None:
        """Start the senders, and the thread that gives them work."""
        senders = ThreadPoolExecutor(SENDERS, thread_name_prefix="notices")
        threads.start(
            "notices",
            Notices(live_ports(), senders).tick,
            part="webhooks and mails",
            rest_s=lambda: LOOK_EVERY_S,
            at_end=lambda: senders.shutdown(cancel_futures=True),
        )
