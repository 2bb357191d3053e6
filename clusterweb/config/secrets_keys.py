"""The keys that encrypt secrets in the database: of their own, to be renewed, and kept apart from backups.

From ``SECRETS_KEYS``, or from the file ``secrets_keys`` below ``VAR_DIR``, made on first use with mode 0600. One key a
line (in the variable: separated by commas), the newest first: ``<number>:<32 bytes in base64>``. The first encrypts,
all decrypt.
"""

import base64
import binascii
import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from clusterweb.config.env_error import EnvError

KEY_BYTES = 32
FILE = "secrets_keys"

Keys = dict[int, bytes]  # by number, the newest first


def keys_read(text: str) -> Keys:
    """Return the keys. Raises ValueError."""
    keys: Keys = {}
    for line in text.replace(",", "\n").split():
        number, colon, encoded = line.partition(":")
        try:
            key = base64.b64decode(encoded, altchars=b"-_", validate=True)
        except binascii.Error:
            raise ValueError(number) from None
        if not colon or not number.isdigit() or len(key) != KEY_BYTES or int(number) in keys:
            raise ValueError(number)
        keys[int(number)] = key
    if not keys:
        raise ValueError("none")
    return keys


def keys_written(keys: Keys) -> str:
    """Return keys as ``keys_read`` takes them."""
    return "".join(f"{number}:{base64.urlsafe_b64encode(key).decode()}\n" for number, key in keys.items())


def key_made() -> bytes:
    """Return a new key."""
    return secrets.token_bytes(KEY_BYTES)


def load_secrets_keys(source: Mapping[str, str], var_dir: Path) -> Keys | None:
    """Return the keys of the environment; None where they are in the file, which is made when there is none.

    Raises:
        EnvError: If they are malformed.
    """
    text = source.get("SECRETS_KEYS", "")
    if text:
        try:
            return keys_read(text)
        except ValueError:
            right = "numbers with 32 bytes in base64, such as 1:q83v..., separated by commas"
            raise EnvError(f"SECRETS_KEYS cannot be used: it must be {right}.") from None
    path = var_dir / FILE
    partial = var_dir / f".{FILE}.{os.getpid()}"
    if not path.exists():
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(keys_written({1: key_made()}))
        try:
            os.link(partial, path)  # whole or not at all, and never over the key of another process
        except FileExistsError:
            pass
        finally:
            partial.unlink()
    return None
