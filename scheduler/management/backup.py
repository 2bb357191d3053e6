"""Writes and restores backups of the database.

The database itself makes a consistent backup while everything runs. A restored one is older than what the agents know:
its epoch is raised, so that agents accept it, and scheduling starts paused, so that an admin looks first.
"""

import math
import os
import sqlite3
import subprocess
from datetime import datetime, timedelta
from pathlib import Path

from django.conf import settings
from django.core.management import call_command
from django.db import DatabaseError, connection, connections
from django.db.models import F

from scheduler.models import Cluster, Job, Queue
from scheduler.services.cluster.settings import cluster_row
from scheduler.services.events import event_record
from scheduler.services.permission import OPERATOR

LIVE_FOR_ROUNDS = 3


class BackupError(Exception):
    """Backup or restore was refused or failed; the message says why and what to do."""


def backup_write(path: Path) -> str:
    """Write the whole database to ``path`` and return what is in it.

    Raises:
        BackupError: The file exists, its directory cannot be written to, or the database did not write it.
    """
    if path.exists():
        raise BackupError(f"{path} exists already. A backup is never overwritten.")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise BackupError(f"{path.parent} is not there, or may not be written to.")
    partial = path.with_name(f"{path.name}.partial")
    partial.unlink(missing_ok=True)
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute("VACUUM INTO %s", [str(partial)])
    else:
        _postgres("pg_dump", "--format=custom", f"--file={partial}")
    os.chmod(partial, 0o600)
    partial.replace(path)
    return _contents()


def backup_restore(path: Path, *, replace: bool, at: datetime) -> str:
    """Make the database what it was when ``path`` was written, paused and with a new epoch; return what is in it.

    Args:
        replace: Whether a database with jobs may be overwritten.

    Raises:
        BackupError: No such backup, a running scheduler, or jobs that would be lost.
    """
    if not path.is_file():
        raise BackupError(f"There is no file {path}.")
    epoch = _refuse_live(replace=replace, at=at)
    if connection.vendor == "sqlite":
        _restore_sqlite(path)
    else:
        _postgres("pg_restore", "--clean", "--if-exists", "--no-owner", "--single-transaction", str(path))
    call_command("migrate", verbosity=0)
    cluster_row()
    # Higher than both: agents may have seen either.
    Cluster.objects.update(epoch=F("epoch") + 1, paused=True)
    if cluster_row().epoch <= epoch:
        Cluster.objects.update(epoch=epoch + 1)
    event_record(kind="settings", actor=OPERATOR, at=at, reason="restore", data={"after": {"paused": True}})
    return _contents()


def _refuse_live(*, replace: bool, at: datetime) -> int:
    """Return the epoch of the database to overwrite. Raises BackupError when it may not be."""
    try:
        cluster, jobs = Cluster.objects.filter(pk=1).first(), Job.objects.count()
    except DatabaseError:
        return 0  # empty, or of another release
    if cluster is None:
        return 0
    finished = cluster.round_finished_at
    rest = timedelta() if finished is None else finished + timedelta(seconds=LIVE_FOR_ROUNDS * settings.ROUND_S) - at
    if rest > timedelta():
        raise BackupError(
            "A scheduler works on this database: stop everything but the database first. "
            f"Where that is done, repeat this in {math.ceil(rest.total_seconds())} s: no round may have ended since."
        )
    if jobs and not replace:
        raise BackupError(f"The database holds {jobs} jobs. They are lost by a restore: say --replace.")
    return cluster.epoch


def _restore_sqlite(path: Path) -> None:
    target = Path(str(settings.DATABASES["default"]["NAME"]))
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as source:
        try:
            source.execute("SELECT 1 FROM scheduler_cluster LIMIT 1")
        except sqlite3.DatabaseError:
            raise BackupError(f"{path} is no backup of Clusterweb.") from None
        connections.close_all()
        for suffix in ("-wal", "-shm"):
            Path(f"{target}{suffix}").unlink(missing_ok=True)
        with sqlite3.connect(target) as kept:
            source.backup(kept)
    source.close()
    kept.close()


def _postgres(program: str, *arguments: str) -> None:
    given = settings.DATABASES["default"]
    environ = {**os.environ, "PGPASSWORD": str(given["PASSWORD"])}
    where = [f"--host={given['HOST']}", f"--port={given['PORT'] or 5432}", f"--username={given['USER']}"]
    connections.close_all()
    try:
        done = subprocess.run(  # noqa: S603  (arguments of our own settings)
            [program, *where, f"--dbname={given['NAME']}", *arguments], env=environ, capture_output=True, text=True
        )
    except FileNotFoundError:
        raise BackupError(f"{program} is not installed here: it comes with PostgreSQL.") from None
    if done.returncode:
        raise BackupError(f"{program} failed: {done.stderr.strip()[-500:]}")


def _contents() -> str:
    return f"{Queue.objects.count()} queues, {Job.objects.count()} jobs"
