"""Runs outbox and sender in threads of every worker that consumes the queue ``notices``."""

import logging
import threading
from collections import defaultdict
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from celery import bootsteps
from django.db import DatabaseError, InterfaceError, close_old_connections, connections

from scheduler.models import Delivery
from scheduler.notices.outbox import Outbox
from scheduler.notices.sender import deliver, due, forget_old
from scheduler.ports import Ports, live_ports

log = logging.getLogger(__name__)

LOOK_EVERY_S = 0.5
PAUSE_S = 2.0
FORGET_EVERY_S = 60.0
SENDERS = 4
MOST_AT_ONCE = 20  # messages to one receiver before others have their turn


class Notices:
    """One look at a time: new events become deliveries, due deliveries are given to the senders.

    Each receiver is served by one sender at a time, so that one that does not answer keeps nobody else waiting.
    """

    def __init__(self, ports: Ports, senders: ThreadPoolExecutor) -> None:
        self._ports = ports
        self._senders = senders
        self._outbox = Outbox()
        self._busy: dict[tuple[int | None, int | None], Future[None]] = {}
        self._forgot_s = 0.0

    def tick(self) -> None:
        """Look once."""
        at, now_s = self._ports.clock.now(), self._ports.clock.mono_s()
        self._outbox.look(at)
        if now_s - self._forgot_s >= FORGET_EVERY_S:
            self._forgot_s = now_s
            forget_old(at)
        self._busy = {key: future for key, future in self._busy.items() if not future.done()}
        by_receiver: dict[tuple[int | None, int | None], list[Delivery]] = defaultdict(list)
        for delivery in due(at):
            by_receiver[delivery.webhook_id, delivery.mail_id].append(delivery)
        for key, deliveries in by_receiver.items():
            if key not in self._busy:
                self._busy[key] = self._senders.submit(self._send, deliveries[:MOST_AT_ONCE])

    def _send(self, deliveries: list[Delivery]) -> None:
        """Send until one fails: the others of this receiver would fail as well, and wait for the next look."""
        try:
            for delivery in deliveries:
                if not deliver(delivery, at=self._ports.clock.now()):
                    break
        except Exception:  # a defect must cost one receiver its turn, not the worker
            log.exception("notice_failed")
        finally:
            connections.close_all()


class NoticeThreads:
    """The threads, from start to stop."""

    def __init__(self, ports: Ports | None = None) -> None:
        self._ports = ports or live_ports()
        self._stop = threading.Event()
        self._senders = ThreadPoolExecutor(SENDERS, thread_name_prefix="notices")
        self._thread = threading.Thread(target=self._run, name="notices", daemon=True)

    def start(self) -> None:
        """Start them."""
        self._thread.start()
        log.info("notices_started")

    def stop(self) -> None:
        """Stop them; what is being sent is sent to its end."""
        self._stop.set()
        self._thread.join(timeout=10)
        self._senders.shutdown(cancel_futures=True)
        log.info("notices_stopped")

    def _run(self) -> None:
        notices = Notices(self._ports, self._senders)
        try:
            while not self._stop.wait(LOOK_EVERY_S):
                try:
                    notices.tick()
                    close_old_connections()
                except (DatabaseError, InterfaceError) as error:
                    log.error("database_failed", extra={"error": str(error)})
                    connections.close_all()
                    self._stop.wait(PAUSE_S)
                except Exception:  # a defect must cost one look, not the worker
                    log.exception("notices_step_failed")
                    self._stop.wait(PAUSE_S)
        finally:
            connections.close_all()


class NoticesStep(bootsteps.StartStopStep):  # type: ignore[misc]  # celery has no stubs
    """Celery's hook: starts with the worker, stops with it."""

    requires = {"celery.worker.components:Pool"}

    def __init__(self, worker: Any, **kwargs: Any) -> None:  # celery's own signature
        self._threads: NoticeThreads | None = None
        super().__init__(worker, **kwargs)

    def include_if(self, worker: Any) -> bool:
        """Return whether this worker consumes the queue of notices."""
        return "notices" in worker.app.amqp.queues.consume_from

    def start(self, worker: Any) -> None:
        """Start the threads."""
        self._threads = NoticeThreads()
        self._threads.start()

    def stop(self, worker: Any) -> None:
        """Stop the threads."""
        if self._threads is not None:
            self._threads.stop()
            self._threads = None

    terminate = stop
