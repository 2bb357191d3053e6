"""Runs the engine in threads of the scheduler's Celery worker: one takes reports, one sends frames.

Started as a step of every worker that consumes the queue ``scheduler``, and of no other.
"""

import logging
import threading
from typing import Any

from celery import bootsteps
from django.db import DatabaseError, InterfaceError, close_old_connections, connections

from scheduler.live.loop import Engine
from scheduler.notify import use_bell
from scheduler.ports import Bell, Ports, live_bell, live_ports

log = logging.getLogger(__name__)

RECEIVE_S = 0.25
PAUSE_S = 1.0
FRAMES_IDLE_S = 5.0
SERVERS_READ_EVERY_S = 1.0
CONNECTIONS_CHECKED_EVERY_S = 30.0


class EngineBell:
    """The bell inside the engine's process: what is touched here need not go round through the broker."""

    def __init__(self, engine: Engine, outer: Bell) -> None:
        self._engine = engine
        self._outer = outer

    def request_round(self, trigger: str) -> None:
        """Ask for an early round, in whichever process takes the task."""
        self._outer.request_round(trigger)

    def round_begins(self) -> None:
        """Let the next change ask for a round again."""
        self._outer.round_begins()

    def touch(self, name: str) -> None:
        """Say that a thing changed."""
        self._engine.frames.touch([name])


class EngineThreads:
    """The engine's threads, from start to stop."""

    def __init__(self, ports: Ports | None = None, bell: Bell | None = None) -> None:
        self._ports = ports or live_ports()
        self._bell = bell or live_bell()
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._engine: Engine | None = None

    def start(self) -> None:
        """Start both threads."""
        self._engine = Engine(self._ports)
        use_bell(EngineBell(self._engine, self._bell))
        for name, run in (("engine", self._receive), ("engine-frames", self._send_frames)):
            thread = threading.Thread(target=self._guarded, args=(run, self._engine), name=name, daemon=True)
            thread.start()
            self._threads.append(thread)
        log.info("engine_started")

    def stop(self) -> None:
        """Stop both threads and wait for them."""
        self._stop.set()
        if self._engine is not None:
            self._engine.frames.changed.set()
        for thread in self._threads:
            thread.join(timeout=10)
        use_bell(None)
        log.info("engine_stopped")

    def _guarded(self, run: Any, engine: Engine) -> None:  # one of the two methods below
        """Keep a thread alive through whatever a broken database or a defect throws at it."""
        checked_s = self._ports.clock.mono_s()
        try:
            while not self._stop.is_set():
                try:
                    run(engine)
                except ConnectionError as error:
                    log.warning("broker_away", extra={"error": str(error)})
                    self._stop.wait(PAUSE_S)
                except (DatabaseError, InterfaceError) as error:
                    log.error("database_failed", extra={"error": str(error)})
                    connections.close_all()
                    self._stop.wait(PAUSE_S)
                except Exception:  # a defect must cost one step, not the engine
                    log.exception("engine_step_failed")
                    self._stop.wait(PAUSE_S)
                if self._ports.clock.mono_s() - checked_s >= CONNECTIONS_CHECKED_EVERY_S:
                    checked_s = self._ports.clock.mono_s()
                    close_old_connections()
        finally:
            connections.close_all()

    def _receive(self, engine: Engine) -> None:
        """Take what arrives for a second, then look again for new servers."""
        server_ids = engine.server_ids()
        until_s = self._ports.clock.mono_s() + SERVERS_READ_EVERY_S
        while self._ports.clock.mono_s() < until_s and not self._stop.is_set():
            try:
                messages = self._ports.transport.receive_reports(server_ids, timeout_s=RECEIVE_S)
            finally:
                engine.tick()  # time goes on without a broker, too
            engine.frames.touch(self._ports.transport.take_touched())
            if messages:
                engine.take(messages)

    def _send_frames(self, engine: Engine) -> None:
        """Send what is due, then wait for the next change or for the rest of the half second."""
        rest_s = engine.frames.flush(now_s=self._ports.clock.mono_s())
        if rest_s is None:
            engine.frames.changed.wait(FRAMES_IDLE_S)
        else:
            self._stop.wait(rest_s)


class EngineStep(bootsteps.StartStopStep):  # type: ignore[misc]  # celery has no stubs
    """Starts the engine with the worker of the queue ``scheduler``."""

    requires = {"celery.worker.components:Pool"}

    def __init__(self, worker: Any, **kwargs: Any) -> None:  # celery's own signature
        self._threads: EngineThreads | None = None
        super().__init__(worker, **kwargs)

    def include_if(self, worker: Any) -> bool:
        """Return whether this worker consumes the scheduler's queue."""
        return "scheduler" in worker.app.amqp.queues.consume_from

    def start(self, worker: Any) -> None:
        """Start the threads."""
        self._threads = EngineThreads()
        self._threads.start()

    def stop(self, worker: Any) -> None:
        """Stop the threads."""
        if self._threads is not None:
            self._threads.stop()
            self._threads = None

    terminate = stop
