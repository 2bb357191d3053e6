"""What `make run` keeps is closed to the users of jobs."""

import os
from pathlib import Path

import pytest

from clusterweb import stack
from clusterweb.config.env import load


def test_what_is_kept_is_closed_to_other_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also what an earlier release or an editor wrote; links and the folder of jobs stay as they are."""
    monkeypatch.setattr(stack, "BASE_DIR", tmp_path)
    (tmp_path / ".env").write_text("SECRET_KEY=x")
    env = load({"VAR_DIR": str(tmp_path / "var")})
    (env.var_dir / "clusterweb.sqlite3").write_text("rows")
    for name in ("agents", "shared"):
        (env.var_dir / name).mkdir()
    (env.var_dir / "elsewhere").symlink_to(tmp_path)
    for path in (tmp_path / ".env", env.var_dir / "clusterweb.sqlite3"):
        path.chmod(0o644)
    for path in (env.var_dir / "agents", env.var_dir / "shared", tmp_path):
        path.chmod(0o755)
    stack.keep_private(env)

    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / ".env", tmp_path, *env.var_dir.iterdir())}
    assert modes.pop(tmp_path.name) == modes.pop("elsewhere") == modes.pop("shared") == 0o755
    assert modes.pop("agents") == 0o700
    assert set(modes.values()) == {0o600}, modes
    assert env.var_dir.stat().st_mode & 0o777 == (0o711 if os.geteuid() == 0 else 0o700)
