"""The agent's configuration file: defaults, and one clear line for what is wrong."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from agents.config import config_from_environment, config_load
from agents.protocol.errors import ConfigInvalid

GOOD: dict[str, Any] = {
    "server_id": "s0123456789a",
    "server_name": "server-01",
    "key_hex": "ab" * 32,
    "redis_url": "unix://:password@/run/broker.sock",
    "shared_dir": "/srv/shared",
    "state_dir": "/srv/agent",
    "cpu_slots": None,
    "cpu_ids": None,
    "memory_bytes": None,
}


def written(path: Path, **changes: Any) -> Path:
    """Write a good configuration with changes."""
    file = path / "agent.json"
    file.write_text(json.dumps({**GOOD, **changes}))
    return file


def test_defaults_hold_where_the_file_says_nothing(tmp_path: Path) -> None:
    """Two slots, all cores of the process, most of the machine's memory."""
    config = config_load(written(tmp_path))

    assert config.cpu_slots == 2
    assert config.cpu_ids == tuple(sorted(os.sched_getaffinity(0)))
    assert config.memory_bytes > 0
    assert config.attempts_dir == Path("/srv/shared/attempts")


@pytest.mark.parametrize(
    ("url", "celery"),
    [
        ("unix://:password@/run/b.sock", "redis+socket://:password@/run/b.sock"),
        ("redis://user:password@host:6379/0", "redis://user:password@host:6379/0"),
    ],
)
def test_broker_has_celery_spelling(tmp_path: Path, url: str, celery: str) -> None:
    """Celery writes a unix socket in its own way."""
    assert config_load(written(tmp_path, redis_url=url)).celery_broker_url == celery


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"server_id": "server-01"}, "server_id"),
        ({"server_id": None}, "server_id"),
        ({"key_hex": "xyz"}, "key_hex"),
        ({"key_hex": "ab"}, "key_hex"),
        ({"redis_url": "http://x"}, "redis_url"),
        ({"cpu_slots": 0}, "cpu_slots"),
        ({"cpu_ids": [-1]}, "cpu_ids"),
        ({"memory_bytes": "4GiB"}, "memory_bytes"),
    ],
)
def test_bad_value_is_named_in_one_line(tmp_path: Path, changes: dict[str, Any], named: str) -> None:
    """Who reads the line knows what to change."""
    with pytest.raises(ConfigInvalid) as raised:
        config_load(written(tmp_path, **changes))

    assert named in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("content", ["", "[]", "null", "{", "{}"])
def test_file_that_is_no_configuration_is_refused(tmp_path: Path, content: str) -> None:
    """Whatever is in it."""
    file = tmp_path / "agent.json"
    file.write_text(content)

    with pytest.raises(ConfigInvalid):
        config_load(file)


def test_missing_file_and_missing_variable_are_named(tmp_path: Path) -> None:
    """Before anything else is tried."""
    with pytest.raises(ConfigInvalid, match="nowhere"):
        config_load(tmp_path / "nowhere")
    with pytest.raises(ConfigInvalid, match="AGENT_CONFIG is not set"):
        config_from_environment({})


def test_folders_for_jobs_come_from_the_environment(tmp_path: Path) -> None:
    """They are the machine's, not what the scheduler says; a relative path would depend on where the agent started."""
    environ = {"AGENT_CONFIG": str(written(tmp_path)), "JOB_READ_DIRS": "/data:/mnt/sets", "JOB_WRITE_DIRS": "/results"}
    config = config_from_environment(environ)

    assert (config.readable_dirs, config.writable_dirs) == (("/data", "/mnt/sets"), ("/results",))
    assert config.file == environ["AGENT_CONFIG"]
    with pytest.raises(ConfigInvalid, match="JOB_READ_DIRS cannot be used: 'data' is not an absolute path"):
        config_from_environment(environ | {"JOB_READ_DIRS": "data"})
