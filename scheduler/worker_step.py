"""Threads that survive errors, started with the Celery worker of a queue; shared by all our workers."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, ClassVar

from celery import bootsteps
from django.conf import settings
from django.db import DatabaseError, InterfaceError, close_old_connections, connections

from clusterweb.config.alive import alive

log = logging.getLogger(__name__)

PAUSE_S = 1.0
JOIN_S = 10.0
CONNECTIONS_CHECKED_EVERY_S = 30.0

Step = Callable[[], object]
Rest = Callable[[], float]


class RepeatingThreads:
    """Threads that repeat one step each until they are stopped.

    A broker or database that is down costs a pause, an unexpected error one step; neither ends a thread. After each
    step the thread says under its name that it is alive.
    """

    def __init__(self) -> None:
        self.stopping = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self, name: str, step: Step, *, rest_s: Rest = lambda: 0.0, at_end: Step | None = None) -> None:
        """Repeat ``step`` in a thread of its own, with ``rest_s()`` seconds before each; ``at_end`` runs last."""
        thread = threading.Thread(target=self._run, args=(step, rest_s, at_end), name=name, daemon=True)
        thread.start()
        self._threads.append(thread)

    def stop(self) -> None:
        """Stop all and wait for them."""
        self.stopping.set()
        for thread in self._threads:
            thread.join(timeout=JOIN_S)

    def _run(self, step: Step, rest_s: Rest, at_end: Step | None) -> None:
        try:
            self._repeat(step, rest_s)
            if at_end is not None:
                at_end()
        finally:
            connections.close_all()

    def _repeat(self, step: Step, rest_s: Rest) -> None:
        checked_s = time.monotonic()
        while not self.stopping.wait(rest_s()):
            try:
                step()
            except ConnectionError as error:
                log.warning("broker_away", extra={"error": str(error)})
                self.stopping.wait(PAUSE_S)
            except (DatabaseError, InterfaceError) as error:
                log.error("database_failed", extra={"error": str(error)})
                connections.close_all()
                self.stopping.wait(PAUSE_S)
            except Exception:  # a defect must cost one step, not the worker
                log.exception("worker_step_failed")
                self.stopping.wait(PAUSE_S)
            alive(settings.VAR_DIR, threading.current_thread().name)
            if time.monotonic() - checked_s >= CONNECTIONS_CHECKED_EVERY_S:
                checked_s = time.monotonic()
                close_old_connections()


class WorkerStep(bootsteps.StartStopStep):  # type: ignore[misc]  # celery has no stubs
    """Celery boot step: starts and stops threads with every worker that consumes ``queue``."""

    requires = {"celery.worker.components:Pool"}
    queue: ClassVar[str]

    def __init__(self, worker: Any, **kwargs: Any) -> None:  # celery's own signature
        self._threads: RepeatingThreads | None = None
        super().__init__(worker, **kwargs)

    def begin(self, threads: RepeatingThreads) -> None:
        """Start this worker's threads."""
        raise NotImplementedError

    def include_if(self, worker: Any) -> bool:
        """Return whether this worker consumes the queue."""
        return self.queue in worker.app.amqp.queues.consume_from

    def start(self, worker: Any) -> None:
        """Start the threads."""
        self._threads = RepeatingThreads()
        self.begin(self._threads)
        log.info("threads_started", extra={"queue": self.queue})

    def stop(self, worker: Any) -> None:
        """Stop the threads."""
        if self._threads is not None:
            self._threads.stop()
            self._threads = None
            log.info("threads_stopped", extra={"queue": self.queue})

    terminate = stop
