"""Worker step of the Celery queue ``simulations``: threads for what-if runs, start estimates and the shadow policy."""

import os
import secrets
import socket

from scheduler.ports import live_ports
from scheduler.whatif.scenarios.runner import Runner
from scheduler.whatif.shadow import ShadowPlanner
from scheduler.whatif.start_times.estimates import Estimator
from scheduler.worker_step import RepeatingThreads, WorkerStep

LOOK_EVERY_S = 0.1
IDLE_EVERY_S = 0.5


class SimulationStep(WorkerStep):
    """Starts what-if, estimates and shadow with the worker of the queue ``simulations``."""

    queue = "simulations"

    def begin(self, threads: RepeatingThreads) -> None:
        """Start a thread for each."""
        ports = live_ports()
        name = f"{socket.gethostname()[:40]}-{os.getpid()}-{secrets.token_hex(4)}"
        runner = Runner(ports, name=name, slots=os.cpu_count() or 1)
        shadow = ShadowPlanner(ports)
        threads.start(
            "what-if",
            runner.tick,
            part="what-if studies",
            rest_s=lambda: IDLE_EVERY_S if runner.is_idle else LOOK_EVERY_S,
            at_end=runner.stop,
        )
        threads.start("estimates", Estimator(ports).tick, part="start estimates", rest_s=lambda: IDLE_EVERY_S)
        threads.start("shadow", shadow.tick, part="shadow policy", rest_s=lambda: IDLE_EVERY_S, at_end=shadow.stop)
