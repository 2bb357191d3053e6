"""The environment is read once, and a bad value is one clear line."""

from pathlib import Path

import pytest

from clusterweb.config.children import child_environment
from clusterweb.config.env import load
from clusterweb.config.env_error import EnvError


def environment(var_dir: Path, **values: str) -> dict[str, str]:
    """Return an environment with a state directory and the given values."""
    return {"VAR_DIR": str(var_dir), **values}


def test_defaults_are_safe(tmp_path: Path) -> None:
    """Without any setting the product listens on loopback only, without debug pages."""
    env = load(environment(tmp_path))

    assert (env.host, env.port, env.debug, env.round_s) == ("127.0.0.1", 8000, False, 300.0)
    assert env.redis_url == ""


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PORT", "http"),
        ("PORT", "70000"),
        ("PORT", "0"),
        ("ROUND_S", "soon"),
        ("ROUND_S", "-1"),
        ("ROUND_S", "nan"),
        ("DATABASE_URL", "mysql://somewhere/db"),
        ("REDIS_URL", "amqp://somewhere"),
        ("SECRET_KEY", "short"),
        ("DEBUG", "maybe"),
        ("LEASE_TTL_S", "0"),
        ("TRACE_MOST_ROWS", "many"),
        ("TRACE_MOST_UNPACKED_MIB", "0"),
        ("TRACE_READ_S", "1.5"),
        ("TRACE_READ_MIB", "-1"),
        ("FORWARDED_ALLOW_IPS", "*"),
        ("FORWARDED_ALLOW_IPS", "proxy.example"),
        ("TOKEN_MOST_DAYS", "0"),
    ],
)
def test_bad_value_names_its_variable(tmp_path: Path, name: str, value: str) -> None:
    """The message starts with the variable's name and fits one line."""
    with pytest.raises(EnvError) as raised:
        load(environment(tmp_path, **{name: value}))

    message = str(raised.value)
    assert message.startswith(name)
    assert "\n" not in message


def test_public_bind_needs_secret_and_hosts(tmp_path: Path) -> None:
    """A server that others can reach never runs on generated defaults."""
    with pytest.raises(EnvError, match="SECRET_KEY and ALLOWED_HOSTS"):
        load(environment(tmp_path, HOST="0.0.0.0"))


def test_public_bind_refuses_debug_pages(tmp_path: Path) -> None:
    """Debug pages show secrets."""
    with pytest.raises(EnvError, match="DEBUG"):
        load(environment(tmp_path, HOST="0.0.0.0", DEBUG="1", SECRET_KEY="x" * 40, ALLOWED_HOSTS="a"))


def test_generated_secret_is_private_and_kept(tmp_path: Path) -> None:
    """The secret key survives a restart and no other user can read it."""
    first = load(environment(tmp_path)).secret_key

    assert load(environment(tmp_path)).secret_key == first
    assert (tmp_path / "secret_key").stat().st_mode & 0o777 == 0o600


def test_state_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    """A file in the way is one clear line."""
    (tmp_path / "file").write_text("")

    with pytest.raises(EnvError, match="VAR_DIR"):
        load(environment(tmp_path / "file" / "var"))


def test_processes_that_read_uploads_are_told_what_programs_need() -> None:
    """What is not known to be harmless stays out, whatever it is called."""
    given = {"PATH": "/bin", "LANG": "C.UTF-8", "TMPDIR": "/t", "SECRET_KEY": "canary", "NEW_TOKEN": "canary"}

    told = child_environment(given)

    assert (told["PATH"], told["LANG"], told["TMPDIR"]) == ("/bin", "C.UTF-8", "/t")
    assert "canary" not in told.values()
