"""A PostgreSQL of our own for as long as a benchmark runs, with the settings it is shipped with."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.e2e.stack import free_port

INSTALLED = Path("/usr/lib/postgresql")
USER = "postgres"


def programs() -> Path | None:
    """Return the folder of the newest PostgreSQL on this machine, or None."""
    found = [path for path in INSTALLED.glob("*/bin") if path.parent.name.isdigit()]
    return max(found, key=lambda path: int(path.parent.name), default=None)


class Postgres:
    """A private server in a directory of its own. It may not be run by root, so its own user runs it there."""

    def __init__(self) -> None:
        folder = programs()
        assert folder, f"no PostgreSQL under {INSTALLED}"
        self._folder, self.port = folder, free_port()
        self._directory = Path(tempfile.mkdtemp(prefix="clusterweb-postgres-"))
        self._as_user = ["runuser", "-u", USER, "--"] if os.geteuid() == 0 else []
        if self._as_user:
            shutil.chown(self._directory, USER)
        self._data = self._directory / "data"
        self.url = f"postgres://{USER}@127.0.0.1:{self.port}/{USER}"

    def start(self) -> None:
        """Make the database and start the server."""
        self._call("initdb", "--auth=trust", f"--username={USER}", "--encoding=UTF8", "-D", str(self._data))
        self._start()

    def follow(self, other: "Postgres") -> None:
        """Become a standby of another server, with a copy of all it has; what was here before is gone."""
        shutil.rmtree(self._data, ignore_errors=True)
        whose = ("-h", "127.0.0.1", "-p", str(other.port), "-U", USER)
        self._call("pg_basebackup", *whose, *self._at, "--write-recovery-conf", "--checkpoint=fast")
        self._start()

    def promote(self) -> None:
        """Stop following: take writes."""
        self._call("pg_ctl", "-w", *self._at, "promote")

    def stop(self, *, how: str) -> None:
        """Stop it, ``fast`` or ``immediate`` as a crash does."""
        self._call("pg_ctl", "-w", *self._at, "-m", how, "stop")

    def restart(self, *, how: str) -> None:
        """Stop it, ``fast`` or ``immediate`` as a crash does, and start it again."""
        self._call("pg_ctl", "-w", *self._at, "-l", str(self._directory / "log"), "-m", how, "restart")

    def destroy(self) -> None:
        """Stop it and remove what it wrote."""
        if (self._data / "postmaster.pid").exists():
            self._call("pg_ctl", *self._at, "-m", "immediate", "stop")
        shutil.rmtree(self._directory, ignore_errors=True)

    def _start(self) -> None:
        options = f"-p {self.port} -k {self._directory} -c listen_addresses=127.0.0.1"
        self._call("pg_ctl", "-w", *self._at, "-l", str(self._directory / "log"), "-o", options, "start")

    @property
    def _at(self) -> tuple[str, str]:
        return "-D", str(self._data)

    def _call(self, program: str, *arguments: str) -> None:
        command = [*self._as_user, str(self._folder / program), *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=self._directory)


@contextmanager
def postgres() -> Iterator[str]:
    """Start a private server and yield the URL of its database."""
    server = Postgres()
    try:
        server.start()
        yield server.url
    finally:
        server.destroy()
