"""Start the whole product on one machine and stop all of it again: ``make run``.

Checks the environment, prepares the database and the static files, loads the demo on the first start, runs the
Procfile, and at the end asks the jobs to checkpoint and stop, so that the next start continues them.
"""

import errno
import fcntl
import hashlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, TextIO

from clusterweb.config import broker
from clusterweb.config.env import BASE_DIR, Env, load
from clusterweb.config.env_error import EnvError

# The demo shows rounds often; a production scheduler keeps the default of ``clusterweb.config.env``.
DEMO_ROUND_S = "10"
# A job that is stopped by a signal has 70 % of it: all of its grace, unless it asked for more than the default.
STOP_JOBS_WITHIN_S = 45
SAYS_AFTER_S = 2.0  # that it still waits for jobs
SIMULATED = "sim-*.json"  # configurations of servers without machines
SHARED = "shared"  # the folder with the files of jobs; the agents set its mode


def port_check(env: Env) -> None:
    """Raise EnvError when the web server could not listen."""
    family = socket.AF_INET6 if ":" in env.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((env.host, env.port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise EnvError(f"PORT={env.port} is taken on {env.host}: try PORT={env.port + 1} make run.") from None
            raise EnvError(f"HOST={env.host!r}, PORT={env.port} cannot be used: {error.strerror}.") from None


def single_instance(env: Env) -> TextIO:
    """Return the held lock file of ``var_dir``. Raises EnvError when another instance holds it."""
    lock = (env.var_dir / "run.lock").open("a+")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise EnvError(f"Clusterweb runs already on VAR_DIR={str(env.var_dir)!r}.") from None
    return lock


def keep_private(env: Env) -> None:
    """Close what is kept in ``var_dir`` to other users; jobs with users of their own pass through it to their files."""
    for entry in (*env.var_dir.iterdir(), *BASE_DIR.glob(".env")):
        if entry.name != SHARED and not entry.is_symlink():
            entry.chmod(entry.stat().st_mode & 0o700)
    if os.geteuid() == 0:
        env.var_dir.chmod(0o711)


def sources_stamp() -> str:
    """Return a digest that changes when a static file does, so that they are collected only then."""
    digest = hashlib.sha256()
    for path in [*sorted(BASE_DIR.glob("frontend/**/static/**/*")), BASE_DIR / "requirements.txt"]:
        if path.is_file():
            status = path.stat()
            digest.update(f"{path} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def prepare(env: Env) -> None:
    """Bring database, static files and demo up to date. Raises EnvError."""
    import django
    from django.core.management import call_command

    django.setup()
    from django.db import connection
    from django.db.migrations.executor import MigrationExecutor

    from clusterweb.config.old_database import is_too_old

    # Each slow step says what it is before it begins, and only when there is something to do.
    executor = MigrationExecutor(connection)
    if is_too_old(executor.loader):
        raise EnvError(
            f"The database in VAR_DIR={str(env.var_dir)!r} is of a version that cannot be brought up to date any more. "
            "Move the folder away, or name another."
        )
    if executor.migration_plan(executor.loader.graph.leaf_nodes()):
        _say("Bringing the database up to date." if executor.loader.applied_migrations else "Making the database.")
    call_command("migrate", verbosity=0)
    stamp = env.var_dir / "static.stamp"
    if not stamp.exists() or stamp.read_text() != sources_stamp():
        _say("Collecting the files of the pages.")
        call_command("collectstatic", interactive=False, verbosity=0)
        stamp.write_text(sources_stamp())
    if env.demo_week:
        load_week(env)
    else:
        call_command("load_demo", url=base_url(env), without_jobs=not env.demo_jobs, min_run_s=env.demo_min_run_s)
    from django.db import connections

    connections.close_all()


def load_week(env: Env) -> None:
    """Fill an empty database with the week of a simulated cluster. Raises EnvError."""
    command = [sys.executable, "manage.py", "load_week", "--url", base_url(env)]
    if subprocess.run(command, cwd=BASE_DIR).returncode != 0:  # noqa: S603  (own argv)
        raise EnvError("The week of the demonstration could not be made.")
    if not any((env.var_dir / "agents").glob(SIMULATED)):
        raise EnvError(f"VAR_DIR={str(env.var_dir)!r} holds another cluster: DEMO_WEEK=1 needs an empty folder.")


def base_url(env: Env) -> str:
    """Return where people reach the product."""
    host = f"[{env.host}]" if ":" in env.host else env.host
    return f"http://{host}:{env.port}"


def agent_configurations(env: Env) -> list[Path]:
    """Return the configuration files of the agents on this machine."""
    return sorted((env.var_dir / "agents").glob("server-*.json"))


def stop_jobs(env: Env) -> list[dict[str, Any]]:
    """Ask every running job on this machine to checkpoint and end; return what each of them has saved, as JSON says."""
    within = ["--timeout", str(STOP_JOBS_WITHIN_S), "--json"]
    commands = [
        [sys.executable, "-m", "agents.supervisor.stop", "--config", str(path), *within]
        for path in agent_configurations(env)
    ]
    stopped: list[dict[str, Any]] = []
    waits = threading.Timer(
        SAYS_AFTER_S, _say, [f"Stopping. Jobs that run may save their work first: up to {STOP_JOBS_WITHIN_S} s."]
    )
    waits.start()
    for running in [subprocess.Popen(one, cwd=BASE_DIR, stdout=subprocess.PIPE) for one in commands]:  # noqa: S603  (own argv)
        for line in running.communicate()[0].splitlines():
            told = json.loads(line)
            _say(told["sentence"])
            stopped += told["jobs"]
    waits.cancel()
    return stopped


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def tell_kept(stopped: list[dict[str, Any]]) -> None:
    """Print for each job that was stopped what is kept of its work and what is lost."""
    from datetime import UTC, datetime

    from scheduler.selectors.jobs.kept import kept_by_agent

    for said in stopped:
        if (told := kept_by_agent(said, datetime.now(UTC))) is not None:
            _say(f"  J-{told[0]}: {told[1].sentence}")


def announce_when_ready(env: Env) -> None:
    """Print where to go, once the product answers."""
    url = base_url(env)
    while True:
        try:
            with urllib.request.urlopen(f"{url}/readyz", timeout=2):  # noqa: S310  (http, our own address)
                break
        except (urllib.error.URLError, OSError):
            time.sleep(0.3)
    sys.stdout.write(
        f"\n  Clusterweb is ready:  {url}\n"
        f"  Users and passwords:  {env.var_dir / 'demo.json'}\n"
        f"  Stop with Ctrl-C; the next start continues the jobs.\n\n"
    )
    sys.stdout.flush()


def run(env: Env) -> int:
    """Run the Procfile until a signal comes or a process gives up; return an exit status."""
    import honcho.manager
    from honcho.environ import parse_procfile

    honcho.manager.KILL_WAIT = 10  # a worker may be in the middle of a round
    manager = honcho.manager.Manager()
    embedded = os.environ.get("REDIS_IS_EMBEDDED") == "1"
    agents = len(agent_configurations(env))
    wanted = {
        "redis": embedded,
        "agent-1": agents >= 1,
        "agent-2": agents >= 2,
        "simulated": any((env.var_dir / "agents").glob(SIMULATED)),
    }
    for name, command in parse_procfile((BASE_DIR / "Procfile").read_text()).processes.items():
        if wanted.get(name, True):
            manager.add_process(name, command, env=dict(os.environ), cwd=str(BASE_DIR))
    threading.Thread(target=announce_when_ready, args=(env,), daemon=True).start()
    manager.loop()
    tell_kept(stop_jobs(env))
    return 0 if manager.returncode in (None, 0, 130, 143) else int(manager.returncode)


def main() -> int:
    """Start everything."""
    os.environ.setdefault("ROUND_S", DEMO_ROUND_S)
    os.umask(0o077)
    try:
        env = load()
        lock = single_instance(env)
        port_check(env)
        if not env.redis_url:
            os.environ["REDIS_IS_EMBEDDED"] = "1"
            os.environ["REDIS_URL"] = broker.embedded_url(env)
            broker.server_program()
        os.environ.update(
            # Another module is for tests: a soak keeps rows for minutes (``tests/chaos/soak_settings.py``).
            DJANGO_SETTINGS_MODULE=os.environ.get("SETTINGS_MODULE") or "clusterweb.settings",
            PYTHON=sys.executable,
            HOST=env.host,
            PORT=str(env.port),
            VAR_DIR=str(env.var_dir),
            PYTHONUNBUFFERED="1",
        )
        keep_private(env)
        stop_jobs(env)  # left over when the last run was killed
        prepare(env)
    except EnvError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    with lock:
        return run(env)


if __name__ == "__main__":
    sys.exit(main())
