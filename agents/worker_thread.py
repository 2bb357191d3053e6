"""Worker thread for blocking calls: the disk, starts of processes, searches through all processes.

The agent's own thread goes on meanwhile and reports, so that a server whose disk is busy is not taken for lost. What is
asked for is done in the order in which it was asked for.
"""

import logging
import queue
import threading
from collections.abc import Callable, Hashable

log = logging.getLogger(__name__)

Work = Callable[[], None]
JOIN_S = 10.0


class WorkerThread:
    """One thread and what it still has to do."""

    def __init__(self) -> None:
        self._asked: queue.Queue[tuple[Work, Hashable] | None] = queue.Queue()
        self._waiting: set[Hashable] = set()
        self._is_ending = False
        self._thread = threading.Thread(target=self._run, name="agent-worker", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def ask(self, work: Work, *, once: Hashable = None) -> None:
        """Have something done; not again while another of the same name ``once`` waits."""
        if once is not None:
            if once in self._waiting:
                return
            self._waiting.add(once)
        self._asked.put((work, once))

    def stop(self) -> None:
        """End the thread after what it is doing now; the rest is left undone, as in a crash."""
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
