"""An environment with the frameworks that have adapters, from the package index; torch is that of the tests.

It is made once a checkout, below ``.venv/cache``, and anew when the pins change. Nothing of it is in the requirements.
"""

import fcntl
import hashlib
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

PINS = ("accelerate==1.15.0", "lightning==2.6.6", "transformers==5.24.0")
# Not installed: they come from the environment of the tests.
SHARED = ("numpy", "torch")


def frameworks_python() -> Path:
    """Return the Python of the environment, which is made first where it is missing."""
    cache = Path(sys.prefix) / "cache"
    cache.mkdir(exist_ok=True)
    told = "\n".join([*PINS, *SHARED, sys.version, sys.prefix])
    place = cache / f"frameworks-{hashlib.sha256(told.encode()).hexdigest()[:12]}"
    python = place / "bin" / "python"
    with (cache / "frameworks.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "ready").exists():
            _make(place, python)
    return python


def _make(place: Path, python: Path) -> None:
    environ = {**os.environ, "UV_CACHE_DIR": str(place.parent / "uv")}
    uv = str(Path(sys.executable).with_name("uv"))
    subprocess.run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(place)], check=True, env=environ)
    without = place / "without.txt"
    without.write_text("".join(f"{name}; python_version < '0'\n" for name in SHARED))
    install = [uv, "pip", "install", "--quiet", "--python", str(python), "--override", str(without), *PINS]
    subprocess.run(install, check=True, env=environ)
    own = next((place / "lib").glob("python*/site-packages"))
    (own / "tests.pth").write_text(sysconfig.get_path("purelib") + "\n")
    (place / "ready").touch()
