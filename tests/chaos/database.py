"""The database of a chaos run: what it says, and how it is locked, restarted and switched."""

import contextlib
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Protocol

import psycopg

from benchmarks.support.postgres import Postgres
from tests.chaos.links import Link

# A query on a database that is locked, away or half-way through a change.
NO_DATABASE = (sqlite3.Error, psycopg.Error)
RESTARTS = ("fast", "immediate")


class Database(Protocol):
    """One of the two that the product runs on."""

    url: str  # as ``DATABASE_URL``; empty for the product's own

    def says(self, query: str) -> list[tuple[Any, ...]]:
        """Return what a query finds."""

    def size(self) -> int:
        """Return how large it is, bytes."""

    def lock(self, seconds: float) -> Callable[[], object]:
        """Keep all writers out for so long; return what waits for the end."""


class Sqlite:
    """The file that the product makes by itself."""

    url = ""

    def __init__(self, var_dir: Path) -> None:
        self._path = var_dir / "clusterweb.sqlite3"

    def says(self, query: str) -> list[tuple[Any, ...]]:
        """Return what a query finds."""
        with contextlib.closing(sqlite3.connect(f"file:{self._path}?mode=ro", uri=True)) as database:
            return list(database.execute(query).fetchall())

    def size(self) -> int:
        """Return how large its files are, bytes."""
        return sum(path.stat().st_size for path in self._path.parent.glob(f"{self._path.name}*"))

    def lock(self, seconds: float) -> Callable[[], object]:
        """Hold the one lock of writers."""
        locking = (
            "import sqlite3,sys,time;c=sqlite3.connect(sys.argv[1],timeout=60,isolation_level=None);"
            "c.execute('BEGIN IMMEDIATE');print('locked',flush=True);time.sleep(float(sys.argv[2]));"
            "c.execute('ROLLBACK')"
        )
        return _locked(locking, str(self._path), seconds)


class OwnPostgres:
    """A server of our own with a standby, behind an address that stays: it may be restarted, and left for the standby.

    Nothing is committed before the standby has it, so what was acknowledged survives a switch.
    """

    def __init__(self) -> None:
        self._server, self._standby = Postgres(), Postgres()
        door = socket.socket()
        door.bind(("127.0.0.1", 0))
        self.url = self._server.url.replace(f":{self._server.port}/", f":{door.getsockname()[1]}/")
        self._link = Link(door, self._server.port)

    def start(self) -> None:
        """Start both."""
        self._server.start()
        self._follow()

    def destroy(self) -> None:
        """Stop both and remove what they wrote."""
        self._link.stop()
        for server in (self._standby, self._server):
            server.destroy()

    def _follow(self) -> None:
        self._standby.follow(self._server)
        with psycopg.connect(self._server.url, autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            connection.execute("SELECT pg_reload_conf()")

    def says(self, query: str) -> list[tuple[Any, ...]]:
        """Return what a query finds; times are in UTC."""
        with psycopg.connect(self.url, options="-c timezone=UTC", connect_timeout=5) as connection:
            return list(connection.execute(query.encode()).fetchall())

    def size(self) -> int:
        """Return how large it is, bytes."""
        [(size,)] = self.says("SELECT pg_database_size(current_database())")
        return int(size)

    def lock(self, seconds: float) -> Callable[[], object]:
        """Hold the tables that every transaction of the scheduler needs."""
        locking = (
            "import psycopg,sys,time;c=psycopg.connect(sys.argv[1]);c.execute(\"SET lock_timeout = '60s'\");"
            "c.execute('LOCK TABLE scheduler_job, scheduler_server IN EXCLUSIVE MODE');print('locked',flush=True);"
            "time.sleep(float(sys.argv[2]));c.rollback()"
        )
        return _locked(locking, self.url, seconds)

    def restart(self, rng: Random) -> str:
        """Restart it, as an admin does or as after a crash; return which."""
        how = rng.choice(RESTARTS)
        self._server.restart(how=how)
        return how

    def switch(self, rng: Random) -> str:
        """Stop it for good and let the standby go on in its place; a new standby follows that one. Return how."""
        how = rng.choice(RESTARTS)
        self._server.stop(how=how)
        self._standby.promote()
        self._server, self._standby = self._standby, self._server
        self._link.target = self._server.port
        self._follow()
        return how


def _locked(program: str, where: str, seconds: float) -> Callable[[], object]:
    """Run a locker until it holds its lock, or could not take it."""
    locker = subprocess.Popen([sys.executable, "-c", program, where, str(seconds)], stdout=subprocess.PIPE)
    assert locker.stdout is not None
    locker.stdout.readline()
    return locker.wait
