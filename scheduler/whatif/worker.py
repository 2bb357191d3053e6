"""Runs what-if and the estimates of starts in threads of every worker that consumes the queue ``simulations``."""

import logging
import os
import secrets
import socket
import threading
from collections.abc import Callable
from typing import Any

from celery import bootsteps
from django.db import DatabaseError, InterfaceError, close_old_connections, connections

from scheduler.ports import Ports, live_ports
from scheduler.whatif.estimates import Estimator
from scheduler.whatif.runner import Runner
from scheduler.whatif.shadow import ShadowPlanner

log = logging.getLogger(__name__)

LOOK_EVERY_S = 0.25
IDLE_EVERY_S = 0.5
PAUSE_S = 2.0


class SimulationThreads:
    """The threads of a simulations worker, from start to stop."""

    def __init__(self, ports: Ports | None = None, *, slots: int | None = None) -> None:
        self._ports = ports or live_ports()
        self._slots = slots or os.cpu_count() or 1
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Start them."""
        runs = (("what-if", self._make_runs), ("estimates", self._make_estimates), ("shadow", self._plan_shadow))
        for name, run in runs:
            thread = threading.Thread(target=run, name=name, daemon=True)
            thread.start()
            self._threads.append(thread)
        log.info("simulations_started")

    def stop(self) -> None:
        """Stop them and wait."""
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout=10)
        log.info("simulations_stopped")

    def _make_runs(self) -> None:
        name = f"{socket.gethostname()[:40]}-{os.getpid()}-{secrets.token_hex(4)}"
        runner = Runner(self._ports, name=name, slots=self._slots)
        try:
            self._repeat(runner.tick, lambda: IDLE_EVERY_S if runner.is_idle else LOOK_EVERY_S)
        finally:
            runner.stop()
            connections.close_all()

    def _make_estimates(self) -> None:
        estimator = Estimator(self._ports)
        try:
            self._repeat(estimator.tick, lambda: IDLE_EVERY_S)
        finally:
            connections.close_all()

    def _plan_shadow(self) -> None:
        planner = ShadowPlanner(self._ports)
        try:
            self._repeat(planner.tick, lambda: IDLE_EVERY_S)
        finally:
            planner.stop()
            connections.close_all()

    def _repeat(self, step: Callable[[], object], rest_s: Callable[[], float]) -> None:
        """Call ``step`` until the end, through whatever a broken database or a defect throws at it."""
        while not self._stop.wait(rest_s()):
            try:
                step()
                close_old_connections()
            except (DatabaseError, InterfaceError) as error:
                log.error("database_failed", extra={"error": str(error)})
                connections.close_all()
                self._stop.wait(PAUSE_S)
            except Exception:  # a defect must cost one step, not the worker
                log.exception("simulation_step_failed")
                self._stop.wait(PAUSE_S)


class SimulationStep(bootsteps.StartStopStep):  # type: ignore[misc]  # celery has no stubs
    """Celery's hook: starts with the worker, stops with it."""

    requires = {"celery.worker.components:Pool"}

    def __init__(self, worker: Any, **kwargs: Any) -> None:  # celery's own signature
        self._threads: SimulationThreads | None = None
        super().__init__(worker, **kwargs)

    def include_if(self, worker: Any) -> bool:
        """Return whether this worker consumes the queue of simulations."""
        return "simulations" in worker.app.amqp.queues.consume_from

    def start(self, worker: Any) -> None:
        """Start the threads."""
        self._threads = SimulationThreads()
        self._threads.start()

    def stop(self, worker: Any) -> None:
        """Stop the threads."""
        if self._threads is not None:
            self._threads.stop()
            self._threads = None

    terminate = stop
