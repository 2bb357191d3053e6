"""Starting the product with something wrong is one line and a non-zero status; nothing is left running."""

import fcntl
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from clusterweb.config.broker import embedded_url, server_program, socket_path, write_configuration
from clusterweb.config.env import BASE_DIR, load
from clusterweb.config.redis import celery_broker_url

pytestmark = pytest.mark.usefixtures("processes")


def start(var_dir: Path, **values: str) -> subprocess.CompletedProcess[str]:
    """Run the starter and return how it ended."""
    environment = {**os.environ, "VAR_DIR": str(var_dir), **values}
    return subprocess.run(
        [sys.executable, "-m", "clusterweb.stack"],
        cwd=BASE_DIR,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_taken_port_is_one_line(tmp_path: Path) -> None:
    """The message names the port and a way out."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ended = start(tmp_path, PORT=str(port))

    assert ended.returncode != 0
    assert ended.stderr == f"PORT={port} is taken on 127.0.0.1: try PORT={port + 1} make run.\n"


@pytest.mark.parametrize(("name", "value"), [("PORT", "eighty"), ("ROUND_S", "0"), ("HOST", "0.0.0.0")])
def test_bad_value_is_one_line(tmp_path: Path, name: str, value: str) -> None:
    """A bad value stops the start before anything runs."""
    ended = start(tmp_path, **{name: value})

    assert ended.returncode != 0
    assert ended.stderr.startswith(name)
    assert ended.stderr.count("\n") == 1


def test_second_instance_on_one_state_directory_is_refused(tmp_path: Path) -> None:
    """Two products never share one database and one broker directory."""
    with (tmp_path / "run.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ended = start(tmp_path)

    assert ended.returncode != 0
    assert "runs already" in ended.stderr


def test_slow_steps_are_told_before_they_begin_and_only_when_they_are_done(tmp_path: Path) -> None:
    """The first start makes the database and collects the files of the pages; the next one has neither to do."""
    program = "from clusterweb.config.env import load; from clusterweb.stack import prepare; prepare(load())"
    state = {"VAR_DIR": str(tmp_path), "DATABASE_URL": "", "DJANGO_SETTINGS_MODULE": "clusterweb.settings"}
    environment = {**os.environ, **state, "DEMO_WEEK": "0", "DEMO_JOBS": "0"}
    told = []
    for _ in range(2):
        command = [sys.executable, "-c", program]
        ended = subprocess.run(command, cwd=BASE_DIR, env=environment, capture_output=True, text=True)
        assert ended.returncode == 0, ended.stderr
        told.append(ended.stdout)

    assert told == ["Making the database.\nCollecting the files of the pages.\n", ""]


def test_broker_configuration_is_private(tmp_path: Path) -> None:
    """The password is in a file that only we read, and the server has no TCP port."""
    env = load({"VAR_DIR": str(tmp_path)})
    url = embedded_url(env)
    path = write_configuration(env)

    assert path.stat().st_mode & 0o777 == 0o600
    assert "port 0\n" in path.read_text()
    assert url.startswith("unix://:")
    assert celery_broker_url(url).startswith("redis+socket://:")
    assert Path(server_program()).exists()


def test_long_state_directory_still_gets_a_socket(tmp_path: Path) -> None:
    """A unix socket's path is limited; a deep directory must not break the start."""
    assert len(str(socket_path(tmp_path / ("x" * 120)))) < 108


def test_compose_file_has_every_process() -> None:
    """The production file parses and runs what the Procfile runs; `manage` is for single commands."""
    compose = yaml.safe_load((BASE_DIR / "docker-compose.yml").read_text())

    assert set(compose["services"]) == {
        "database", "redis", "migrate", "web", "beat", "scheduler", "simulations", "agent", "manage",
    }  # fmt: skip
    assert compose["services"]["manage"]["profiles"] == ["manage"]
    for name in ("web", "beat", "scheduler", "simulations"):
        assert compose["services"][name]["environment"]["DATABASE_URL"].startswith("postgres://")
