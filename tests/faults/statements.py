"""The wire between the product and its database: at any statement the process, the database or the broker may go.

It counts the statements of the product alone, commits among them; what checkers ask does not count. A process that goes
at a commit has made it and never learns of it; a database that goes there has not made it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction
from django.db.transaction import Atomic

from tests.faults.virtual import Trace, VirtualTime

Execute = Callable[[str, Any, bool, dict[str, Any]], Any]  # of Django's execute_wrapper
# Statements between two strikes of one storm: at most so many; a round of a few jobs has about a hundred.
MOST_BETWEEN = 150


class Crash(BaseException):
    """The process is gone, here and now. No handler of the product may catch it."""


class Statements:
    """All statements that the product sends in one run."""

    def __init__(self, *, time: VirtualTime, rng: Random, trace: Trace) -> None:
        self._time, self._rng, self._trace = time, rng, trace
        self._strike: Callable[[], None] | None = None
        self._left = 0
        self._down_until_s = 0.0
        self._depth = 0
        self._is_aside = self._has_rolled_back = False

    # ------------------------------------------------------------------ what strikes

    def storm(self, kind: str, strike: Callable[[], None]) -> None:
        """Strike at one statement after another until ``calm``."""

        def struck() -> None:
            self._left = self._rng.randrange(1, MOST_BETWEEN)
            self._trace.fault(kind)
            strike()

        self._strike, self._left = struck, self._rng.randrange(1, MOST_BETWEEN)

    def calm(self) -> None:
        """Let statements pass again."""
        self._strike = None
        self._down_until_s = 0.0

    def process_goes(self) -> None:
        """Kill the process that sends the statement."""
        raise Crash

    def statement_fails(self) -> None:
        """Refuse one statement, as after a deadlock."""
        raise OperationalError("deadlock detected")

    def database_goes(self) -> None:
        """Refuse this statement and all others for some seconds."""
        self._down_until_s = self._time.now_s + 1.0 + 20.0 * self._rng.random() ** 2
        self._refuse()

    @property
    def is_usable(self) -> bool:
        """Return whether the database answers."""
        return self._time.now_s >= self._down_until_s

    # ------------------------------------------------------------------ the wire

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Let what the block sends be struck."""
        self._depth += 1
        try:
            if self._depth > 1:
                yield
            else:
                with connection.execute_wrapper(self._pass):
                    yield
        finally:
            self._depth -= 1

    def aside(self, check: Callable[[], None]) -> Callable[[], None]:
        """Return ``check`` so that nothing that it sends is counted or struck."""

        def done() -> None:
            before, self._is_aside = self._is_aside, True
            try:
                check()
            finally:
                self._is_aside = before

        return done

    def _refuse(self) -> None:
        raise OperationalError("the database is not there")

    def _pass(self, execute: Execute, sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        word = sql.split(maxsplit=1)[0].upper()
        # What undoes a transaction always works: a process or a database that goes leaves nothing half done. Django
        # releases a savepoint that it has rolled back, which commits nothing.
        is_undoing = word == "ROLLBACK" or (word == "RELEASE" and self._has_rolled_back)
        self._has_rolled_back = word == "ROLLBACK"
        if self._is_aside or is_undoing:
            return execute(sql, params, many, context)
        if not self.is_usable:
            self._refuse()
        self._left -= 1
        if self._strike is None or self._left > 0:
            return execute(sql, params, many, context)
        try:
            self._strike()
        except Crash:
            if word == "RELEASE":
                execute(sql, params, many, context)
            raise
        return execute(sql, params, many, context)


def as_outermost(patch: pytest.MonkeyPatch) -> None:
    """Let transactions of the product fail as if they were not inside that of the test, which is to go on.

    A statement outside of a transaction that fails spoils nothing but itself.
    """
    depth = len(connection.savepoint_ids)
    enter = Atomic.__enter__

    def enter_with_savepoint(self: Atomic) -> None:
        self.savepoint = self.savepoint or len(connection.savepoint_ids) == depth
        enter(self)

    @contextmanager
    def mark_inside(using: str | None = None) -> Iterator[None]:
        try:
            yield
        except Exception:
            connection.needs_rollback |= len(connection.savepoint_ids) > depth
            raise

    patch.setattr(Atomic, "__enter__", enter_with_savepoint)
    patch.setattr(transaction, "mark_for_rollback_on_error", mark_inside)
