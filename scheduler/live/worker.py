"""Runs the engine in threads of every Celery worker that consumes the queue ``scheduler``.

What jobs wrote is read by a thread of its own: a disk that is slow or away delays neither reports nor frames.
"""

import threading
from collections.abc import Sequence
from functools import partial
from typing import Any

from scheduler.live.engine import Engine
from scheduler.live.observed.written_losses import losses_read
from scheduler.notify import use_bell
from scheduler.ports import Bell, Ports, live_bell, live_ports
from scheduler.worker_step import RepeatingThreads, WorkerStep

RECEIVE_S = 0.25
FRAMES_IDLE_S = 1.0  # longest wait for a change, and so for a stop
FRAMES_REST = 3.0  # rest, as a multiple of the time that making frames took: leaves the process to the engine
SERVERS_READ_EVERY_S = 1.0
# To ask the broker for the reports of 1,000 servers takes 14 ms of a core if one has reported, 23 ms if all have.
# So the more servers there are, the longer reports gather.
GATHER_S_A_SERVER = 0.00025
# Files of jobs are read for FILES_S, then comes a rest FILES_REST times as long: leaves the process to the engine.
FILES_S, FILES_REST = 0.5, 4.0
FILES_IDLE_S, FILES_IDLE_MOST_S = 1.0, 20.0


class EngineBell:
    """The bell inside the engine's process: changes made here reach live frames without the broker."""

    def __init__(self, engine: Engine, outer: Bell) -> None:
        self._engine = engine
        self._outer = outer

    def request_round(self, trigger: str) -> None:
        """Ask for an early round; any scheduler worker may take the task."""
        self._outer.request_round(trigger)

    def round_begins(self) -> None:
        """Let the next change ask for a round again."""
        self._outer.round_begins()

    def touch(self, names: Sequence[str]) -> None:
        """Say that things changed."""
        self._engine.frames.touch(names)


class EngineStep(WorkerStep):
    """Starts the engine with the worker of the queue ``scheduler``: threads for reports, frames and files of jobs."""

    queue = "scheduler"

    def begin(self, threads: RepeatingThreads) -> None:
        """Start the threads."""
        ports = live_ports()
        engine = Engine(ports)
        use_bell(EngineBell(engine, live_bell()))
        threads.start("engine", partial(_receive, engine, ports, threads.stopping), part="reports and leases")
        threads.start("engine-frames", partial(_send_frames, engine, ports, threads.stopping), part="live pages")
        threads.start("engine-files", partial(_read_losses, ports, threads.stopping), part="losses in files of jobs")
        live_bell().request_round("start")  # the first beat comes a whole interval later

    def stop(self, worker: Any) -> None:
        """Stop them; later changes reach live frames through the broker again."""
        super().stop(worker)
        use_bell(None)

    terminate = stop


def _receive(engine: Engine, ports: Ports, stopping: threading.Event) -> None:
    """Take reports for a second, then read the list of servers again."""
    server_ids = engine.server_ids()
    until_s = ports.clock.mono_s() + SERVERS_READ_EVERY_S
    while ports.clock.mono_s() < until_s and not stopping.is_set():
        engine.turn(server_ids, timeout_s=RECEIVE_S)
        stopping.wait(min(RECEIVE_S, len(server_ids) * GATHER_S_A_SERVER))


def _send_frames(engine: Engine, ports: Ports, stopping: threading.Event) -> bool:
    """Send what is due, then wait for the next change or until the rest is due; return whether anything was."""
    began_s = ports.clock.mono_s()
    is_any = engine.frames.changed.is_set()
    rest_s = engine.frames.flush(now_s=began_s)
    stopping.wait(max(FRAMES_REST * (ports.clock.mono_s() - began_s), rest_s or 0.0))
    if rest_s is None:
        engine.frames.changed.wait(FRAMES_IDLE_S)
    return is_any or rest_s is not None


def _read_losses(ports: Ports, stopping: threading.Event) -> None:
    """Read the losses that jobs wrote into their files, then rest."""
    began_s = ports.clock.mono_s()
    until_s = began_s + FILES_S
    losses_read(at=ports.clock.now(), go_on=lambda: ports.clock.mono_s() < until_s and not stopping.is_set())
    rest_s = FILES_REST * (ports.clock.mono_s() - began_s)
    stopping.wait(min(max(FILES_IDLE_S, rest_s), FILES_IDLE_MOST_S))  # a slow disk is no silent thread
