"""Writers of one SQLite file stand in line: none waits for more than a few turns of the others."""

import errno
import fcntl
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import OperationalError

from clusterweb.sqlite.base import DatabaseWrapper

OTHERS = 6
WRITES = 40
pytestmark = pytest.mark.django_db


def _connection(path: Path, *, timeout_s: float = 60.0) -> DatabaseWrapper:
    told = {**settings.DATABASES["default"], "NAME": str(path)}
    told["OPTIONS"] = {**told["OPTIONS"], "timeout": timeout_s, "init_command": "PRAGMA journal_mode=WAL;"}
    connection = DatabaseWrapper(told, alias="turns")
    connection.inc_thread_sharing()
    return connection


def _table(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        # Set by one connection alone, as by the first start of the product: where another one has the file open,
        # SQLite refuses the change at once, whatever its timeout.
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE one (number INTEGER)")
        connection.execute("INSERT INTO one VALUES (0)")
        connection.commit()


class Writers:
    """Threads that write without a pause, in turns that count themselves."""

    def __init__(self, path: Path, turn: Callable[[DatabaseWrapper], object]) -> None:
        self._over = threading.Event()
        self._turn, self._path = turn, path
        self.turns = [0] * OTHERS
        self._threads = [threading.Thread(target=self._write, args=(place,)) for place in range(OTHERS)]

    def __enter__(self) -> "Writers":
        for thread in self._threads:
            thread.start()
        try:
            self.wait_for(lambda: all(self.turns))
        except BaseException:
            self.__exit__()  # else they write until the suite ends
            raise
        return self

    def wait_for(self, check: Callable[[], bool]) -> None:
        """Return when ``check`` holds."""
        while not check():
            assert all(thread.is_alive() for thread in self._threads), "a writer failed"
            self._over.wait(0.01)

    def __exit__(self, *_: Any) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _write(self, place: int) -> None:
        connection = _connection(self._path)
        while not self._over.is_set():
            self._turn(connection)
            self.turns[place] += 1
        connection.close()


def _transaction(connection: DatabaseWrapper) -> None:
    with connection.cursor() as cursor:
        cursor.execute("BEGIN IMMEDIATE")
        cursor.execute("UPDATE one SET number = number + 1")
        for _ in range(200):  # longer than the others take to ask
            cursor.execute("SELECT number FROM one")
        cursor.execute("COMMIT")


def _statement(connection: DatabaseWrapper) -> None:
    with connection.cursor() as cursor:
        cursor.execute("UPDATE one SET number = number + 1")


@pytest.mark.parametrize("turn", [_transaction, _statement])
def test_no_writer_waits_for_many_turns_of_the_others(tmp_path: Path, turn: Callable[[DatabaseWrapper], None]) -> None:
    _table(tmp_path / "db")
    waited = []
    own = _connection(tmp_path / "db")
    with Writers(tmp_path / "db", _transaction) as others:
        for _ in range(WRITES):
            before = sum(others.turns)
            turn(own)
            waited.append(sum(others.turns) - before)
    own.close()
    assert max(waited) <= 4 * OTHERS, sorted(waited)


def test_all_writes_count(tmp_path: Path) -> None:
    _table(tmp_path / "db")
    with Writers(tmp_path / "db", _statement) as others:
        others.wait_for(lambda: sum(others.turns) >= 200)
    with closing(sqlite3.connect(tmp_path / "db")) as connection:
        assert connection.execute("SELECT number FROM one").fetchone() == (sum(others.turns),)


def test_a_lock_that_is_held_is_told_after_the_timeout(tmp_path: Path) -> None:
    _table(tmp_path / "db")
    own = _connection(tmp_path / "db", timeout_s=0.05)
    with closing(sqlite3.connect(tmp_path / "db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(OperationalError, match="locked"), own.cursor() as cursor:
            cursor.execute("BEGIN IMMEDIATE")
        other.execute("ROLLBACK")
    _statement(own)
    own.close()


def test_without_a_place_for_the_line_all_writes_count(tmp_path: Path) -> None:
    _table(tmp_path / "db")
    (tmp_path / "db-turns").mkdir()
    own = _connection(tmp_path / "db")
    _statement(own)
    own.close()


def test_on_a_file_system_without_locks_all_writes_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(_file: int, _operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    _table(tmp_path / "db")
    own = _connection(tmp_path / "db")
    _statement(own)
    own.close()
    with closing(sqlite3.connect(tmp_path / "db")) as connection:
        assert connection.execute("SELECT number FROM one").fetchone() == (1,)
