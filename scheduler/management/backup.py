"""Writes and restores backups of the database.

The database itself makes a consistent backup while everything runs. A restored one is older than what the agents know:
its epoch is raised, so that agents accept it, and scheduling starts paused, so that an admin looks first.
"""

import math
import os
import shutil
import sqlite3
import subprocess
from contextlib import closing, suppress
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryFile

from django.conf import settings
from django.core.management import call_command
from django.db import DatabaseError, connection, connections

from scheduler.core.spec.units import counted
from scheduler.management.later_attempts import later_attempts_record
from scheduler.models import Cluster, Job, Queue
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


def backup_restore(path: Path, *, replace: bool, at: datetime, now: bool = False) -> str:
    """Make the database what it was when ``path`` was written, paused and with a new epoch; return what is in it.

    Pause and epoch are written in the transaction that writes the restored rows, so nothing acts on these without them.

    Args:
        replace: Whether a database with jobs may be overwritten.
        now: Whether a round may have ended a moment ago: nothing but the database runs any more, says the caller.

    Raises:
        BackupError: No such backup, a running scheduler, or jobs that would be lost.
    """
    if not path.is_file():
        raise BackupError(f"There is no file {path}.")
    epoch = _refuse_live(replace=replace, at=at, now=now)
    if connection.vendor == "sqlite":
        _restore_sqlite(path, above_epoch=epoch)
    else:
        _restore_postgres(path, above_epoch=epoch)
    call_command("migrate", verbosity=0)
    Cluster.objects.get_or_create(pk=1, defaults={"epoch": epoch + 1, "paused": True})
    event_record(kind="settings", actor=OPERATOR, at=at, reason="restore", data={"after": {"paused": True}})
    later = later_attempts_record(at=at)
    return f"{_contents()}, {counted(later, 'attempt')} begun after the backup" if later else _contents()


def _refuse_live(*, replace: bool, at: datetime, now: bool) -> int:
    """Return the epoch of the database to overwrite. Raises BackupError when it may not be."""
    try:
        cluster, jobs = Cluster.objects.filter(pk=1).first(), Job.objects.count()
    except DatabaseError:
        return 0  # empty, or of another release
    if cluster is None:
        return 0
    finished = cluster.round_finished_at
    rest = timedelta() if finished is None else finished + timedelta(seconds=LIVE_FOR_ROUNDS * settings.ROUND_S) - at
    if rest > timedelta() and not now:
        raise BackupError(
            "A scheduler works on this database: stop everything but the database first. "
            f"Where that is done, repeat this in {math.ceil(rest.total_seconds())} s, or say --now: "
            "no round may have ended since."
        )
    if jobs and not replace:
        raise BackupError(f"The database holds {jobs} jobs. They are lost by a restore: say --replace.")
    return cluster.epoch


def _restore_sqlite(path: Path, *, above_epoch: int) -> None:
    target = Path(str(settings.DATABASES["default"]["NAME"]))
    prepared = target.with_name(f"{target.name}.restoring")
    prepared.unlink(missing_ok=True)
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as source:
            try:
                source.execute("SELECT 1 FROM scheduler_cluster LIMIT 1")
            except sqlite3.DatabaseError:
                raise BackupError(f"{path} is no backup of Clusterweb.") from None
            with closing(sqlite3.connect(prepared)) as copy:
                source.backup(copy)
                # Higher than both: agents may have seen either.
                copy.execute("UPDATE scheduler_cluster SET epoch = MAX(epoch, ?) + 1, paused = 1", [above_epoch])
                copy.commit()
                connections.close_all()
                for suffix in ("-wal", "-shm"):
                    Path(f"{target}{suffix}").unlink(missing_ok=True)
                with closing(sqlite3.connect(target)) as kept:
                    copy.backup(kept)  # one transaction of the target
    finally:
        prepared.unlink(missing_ok=True)


def _restore_postgres(path: Path, *, above_epoch: int) -> None:
    """Restore by one transaction that ends with the new epoch and the pause."""
    last = "RESET search_path;UPDATE scheduler_cluster SET epoch = GREATEST(epoch, :above) + 1, paused = true;COMMIT;"
    script = ["pg_restore", "--clean", "--if-exists", "--no-owner", "--file=-", str(path)]
    where, environ = _postgres_where()
    connections.close_all()
    with TemporaryFile() as told, TemporaryFile() as answered:
        try:
            made = subprocess.Popen(script, stdout=subprocess.PIPE, stderr=told)  # noqa: S603  (our own arguments)
            psql = [
                "psql",
                *where,
                "--no-psqlrc",
                "--quiet",
                "--set=ON_ERROR_STOP=1",
                f"--set=above={above_epoch}",
                "--output=/dev/null",
            ]
            done = subprocess.Popen(  # noqa: S603  (arguments of our own settings)
                psql, env=environ, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=answered
            )
        except FileNotFoundError as error:
            raise BackupError(f"{error.filename} is not installed here: it comes with PostgreSQL.") from None
        assert made.stdout is not None
        assert done.stdin is not None
        with suppress(BrokenPipeError), done.stdin, made.stdout:
            done.stdin.write(b"BEGIN;\n")
            shutil.copyfileobj(made.stdout, done.stdin)
            if made.wait() == 0:  # else nothing is committed
                done.stdin.write(last.encode())
        for program, ended, said in (("psql", done.wait(), answered), ("pg_restore", made.wait(), told)):
            if ended:
                said.seek(0)
                raise BackupError(f"{program} failed: {said.read().decode(errors='replace').strip()[-500:]}")


def _postgres(program: str, *arguments: str) -> None:
    where, environ = _postgres_where()
    connections.close_all()
    try:
        done = subprocess.run(  # noqa: S603  (arguments of our own settings)
            [program, *where, *arguments], env=environ, capture_output=True, text=True
        )
    except FileNotFoundError:
        raise BackupError(f"{program} is not installed here: it comes with PostgreSQL.") from None
    if done.returncode:
        raise BackupError(f"{program} failed: {done.stderr.strip()[-500:]}")


def _postgres_where() -> tuple[list[str], dict[str, str]]:
    """Return the arguments and the environment by which programs of PostgreSQL reach the database."""
    given = settings.DATABASES["default"]
    where = [f"--host={given['HOST']}", f"--port={given['PORT'] or 5432}", f"--username={given['USER']}"]
    return [*where, f"--dbname={given['NAME']}"], {**os.environ, "PGPASSWORD": str(given["PASSWORD"])}


def _contents() -> str:
    return f"{counted(Queue.objects.count(), 'queue')}, {counted(Job.objects.count(), 'job')}"
