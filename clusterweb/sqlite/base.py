"""Django's SQLite backend, whose writers stand in line; see ``turns.py``. The settings name it as ``ENGINE``."""

import sqlite3
import time
from collections.abc import Callable
from typing import Any

from django.db.backends.sqlite3 import base

from clusterweb.sqlite.turns import ASK_EVERY_S, turns_of

WRITES = ("BEGIN IMMEDIATE", "INSERT", "UPDATE", "DELETE", "REPLACE")
TIMEOUT_S = 5.0  # of sqlite3, where the settings name none


class DatabaseWrapper(base.DatabaseWrapper):
    """A connection that waits in line before it begins to write."""

    def create_cursor(self, name: object = None) -> "Cursor":
        """Return a cursor; signature of the base class."""
        cursor: Cursor = self.connection.cursor(factory=Cursor)
        if not self.is_in_memory_db():
            cursor.database = str(self.settings_dict["NAME"])
            cursor.timeout_s = float(self.settings_dict["OPTIONS"].get("timeout", TIMEOUT_S))
        return cursor


class Cursor(base.SQLiteCursorWrapper):
    """Executes statements; the first that writes waits in line.

    Attributes:
        database: Path; empty where there is nothing to wait for.
        timeout_s: For how long it waits.
    """

    database = ""
    timeout_s = TIMEOUT_S

    def execute(self, query: str, params: Any = None) -> Any:
        """Execute one statement; signature of the base class."""
        if self.database and not self.connection.in_transaction and query.startswith(WRITES):
            return self._in_line(lambda: super(Cursor, self).execute(query, params))
        return super().execute(query, params)

    def _in_line(self, execute: Callable[[], Any]) -> Any:
        until_s = time.monotonic() + self.timeout_s
        with turns_of(self.database).first(until_s=until_s):
            self.connection.execute("PRAGMA busy_timeout = 0")
            try:
                while True:
                    try:
                        return execute()
                    except sqlite3.OperationalError as error:
                        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= until_s:
                            raise
                    time.sleep(ASK_EVERY_S)
            finally:
                self.connection.execute(f"PRAGMA busy_timeout = {round(1e3 * self.timeout_s)}")
