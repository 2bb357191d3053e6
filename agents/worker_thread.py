"""Worker thread for blocking calls: the disk, starts of processes, searches through all processes.

The agent's main thread goes on reporting meanwhile, so that a server whose disk is busy is not taken for lost. Calls
run in the order of ``ask``.
"""

import logging
import queue
import threading
from collections.abc import Callable, Hashable

log = logging.getLogger(__name__)

Work = Callable[[], None]
JOIN_S = 10.0


class WorkerThread:
    """One thread and its queue of calls."""

    def __init__(self) -> None:
        self._asked: queue.Queue[tuple[Work, Hashable] | None] = queue.Queue()
        self._waiting: set[Hashable] = set()
        self._is_ending = False
        self._thread = threading.Thread(target=self._run, name="agent-worker", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def ask(self, work: Work, *, once: Hashable = None) -> None:
        """Queue a call, unless another of the same name ``once`` waits."""
        if once is not None:
            if once in self._waiting:
                return
            self._waiting.add(once)
        self._asked.put((work, once))

    def stop(self) -> None:
        """End the thread after its present call; queued calls are dropped, as in a crash."""
        self._is_ending = True
        self._asked.put(None)
        if self._thread.ident is not None:
            self._thread.join(timeout=JOIN_S)

    def _run(self) -> None:
        while (asked := self._asked.get()) is not None and not self._is_ending:
            work, once = asked
            self._waiting.discard(once)
            try:
                work()
            except Exception:
                log.exception("agent_step_failed")  # the agent outlives a defect in any step
