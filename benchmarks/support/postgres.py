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


@contextmanager
def postgres() -> Iterator[str]:
    """Start a private server and yield the URL of its database; it may not be run by root, so its own user does."""
    folder = programs()
    assert folder, f"no PostgreSQL under {INSTALLED}"
    as_user = ["runuser", "-u", USER, "--"] if os.geteuid() == 0 else []
    directory, port = Path(tempfile.mkdtemp(prefix="clusterweb-postgres-")), free_port()
    if as_user:
        shutil.chown(directory, USER)
    data = directory / "data"

    def call(*command: str) -> None:
        subprocess.run([*as_user, *command], check=True, stdout=subprocess.DEVNULL, cwd=directory)

    try:
        call(str(folder / "initdb"), "--auth=trust", f"--username={USER}", "--encoding=UTF8", "-D", str(data))
        options = f"-p {port} -k {directory} -c listen_addresses=127.0.0.1"
        call(str(folder / "pg_ctl"), "-w", "-D", str(data), "-l", str(directory / "log"), "-o", options, "start")
        yield f"postgres://{USER}@127.0.0.1:{port}/{USER}"
    finally:
        if (data / "postmaster.pid").exists():
            call(str(folder / "pg_ctl"), "-D", str(data), "-m", "immediate", "stop")
        shutil.rmtree(directory, ignore_errors=True)
