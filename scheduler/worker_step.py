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
from scheduler.ports import live_ports
from scheduler.services.cluster.failing_steps import FailureNotes
from scheduler.services.failures import described, is_away

log = logging.getLogger(__name__)

PAUSE_S = 1.0
JOIN_S = 10.0
CONNECTIONS_CHECKED_EVERY_S = 30.0
# So many failures in a row are told, and end the sign of life that keeps a container healthy. A deadlock, a row that
# was removed meanwhile or a database that changes hands costs one or two steps; five, with a pause after each, are no
# chance.
MOST_FAILURES = 5

Step = Callable[[], object]
Rest = Callable[[], float]


class Pulse:
    """What one thread says of itself: that it is alive, and what it does not get done."""

    def __init__(self, name: str, part: str) -> None:
        """Prepare to tell.

        Args:
            name: Of the thread, and of its sign of life.
            part: What it does, in words that ``/readyz`` and pages show.
        """
        self._name, self._part = name, part
        self._failures = 0
        self._notes = FailureNotes(name)

    def worked(self) -> None:
        """Say that a step did its work."""
        self._failures = 0
        self._notes.works(self._part, at=live_ports().clock.now())
        self.waits()

    def rested(self) -> None:
        """Say that nothing was due, which ends no row of failures: what comes once a round fails once a round."""
        if self._failures < MOST_FAILURES:
            self.waits()

    def waits(self) -> None:
        """Say that the thread goes on although broker or database is away: a new process would find neither."""
        alive(settings.VAR_DIR, self._name)

    def failed(self, error: Exception) -> None:
        """Say that a step failed: a few times that is the end of it, then the thread is as silent as one that hangs."""
        self._failures += 1
        self.rested()
        if self._failures >= MOST_FAILURES:
            self._notes.fails(self._part, described(error), at=live_ports().clock.now())


class RepeatingThreads:
    """Threads that repeat one step each until they are stopped.

    A broker or database that is down costs a pause, an unexpected error one step; neither ends a thread. What each says
    of itself is said by ``Pulse``.
    """

    def __init__(self) -> None:
        self.stopping = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(
        self, name: str, step: Step, *, part: str, rest_s: Rest = lambda: 0.0, at_end: Step | None = None
    ) -> None:
        """Repeat ``step`` in a thread of its own.

        Args:
            name: Of the thread, and of its sign of life.
            step: One turn of the work; returns False where nothing was due.
            part: What the thread does, in words that ``/readyz`` and pages show when it fails.
            rest_s: Asked before each step: seconds to wait.
            at_end: Runs last.
        """
        arguments = (step, rest_s, at_end, Pulse(name, part))
        thread = threading.Thread(target=self._run, args=arguments, name=name, daemon=True)
        thread.start()
        self._threads.append(thread)

    def stop(self) -> None:
        """Stop all and wait for them."""
        self.stopping.set()
        for thread in self._threads:
            thread.join(timeout=JOIN_S)

    def _run(self, step: Step, rest_s: Rest, at_end: Step | None, pulse: Pulse) -> None:
        try:
            self._repeat(step, rest_s, pulse)
            if at_end is not None:
                at_end()
        finally:
            connections.close_all()

    def _repeat(self, step: Step, rest_s: Rest, pulse: Pulse) -> None:
        checked_s = time.monotonic()
        while not self.stopping.wait(rest_s()):
            try:
                is_done = step() is not False
            except ConnectionError as error:
                log.warning("broker_away", extra={"error": str(error)})
                pulse.waits()
                self.stopping.wait(PAUSE_S)
            except (DatabaseError, InterfaceError) as error:
                log.error("database_failed", extra={"error": str(error)})
                is_gone = is_away(error)
                connections.close_all()
                if is_gone:
                    pulse.waits()
                else:
                    pulse.failed(error)
                self.stopping.wait(PAUSE_S)
            except Exception as error:  # a defect must cost one step, not the worker
                log.exception("worker_step_failed")
                pulse.failed(error)
                self.stopping.wait(PAUSE_S)
            else:
                if is_done:
                    pulse.worked()
                else:
                    pulse.rested()
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
