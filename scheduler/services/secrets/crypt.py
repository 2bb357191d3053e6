"""Encrypts and decrypts the values of secrets: AES-256-GCM, one of several keys, bound to owner and name.

A stored value is ``<number of the key>:<nonce and ciphertext in base64>``. A row that was copied to another owner or
name does not open.
"""

import base64
import binascii
import os
from collections.abc import Mapping
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.conf import settings

from clusterweb.config.secrets_keys import FILE, Keys, key_made, keys_read, keys_written
from scheduler.core.model.errors import Conflict, SchedulerError
from scheduler.models import Secret

_NONCE_BYTES = 12


class SecretUnreadable(SchedulerError):
    """A stored value opens with none of the keys that this installation has."""


def keys() -> Keys:
    """Return the keys as they are now, the newest first: a rotation changes the file while processes run."""
    given: Keys | None = settings.SECRETS_KEYS
    if given is not None:
        return given
    try:
        return keys_read(_file().read_text())
    except (OSError, ValueError):
        raise SecretUnreadable(f"The keys of secrets in {_file()} cannot be read.") from None


def secret_encrypt(secret: Secret, value: str) -> str:
    """Return what to store for a value."""
    number, key = next(iter(keys().items()))
    nonce = os.urandom(_NONCE_BYTES)
    sealed = AESGCM(key).encrypt(nonce, value.encode(), _bound_to(secret))
    return f"{number}:{base64.b64encode(nonce + sealed).decode()}"


def secret_decrypt(secret: Secret) -> str:
    """Return the value. Raises SecretUnreadable."""
    return _opened(secret, keys())


def keys_rotate() -> tuple[int, int]:
    """Make a new key, encrypt every secret with it, and return its number and how many secrets there are.

    The key before it stays until the next rotation: a process that read the keys a moment ago may still write with it.

    Raises:
        Conflict: The keys come from the environment, and the newest has been in use: an admin puts a new one in front.
    """
    present = keys()
    if settings.SECRETS_KEYS is None:
        present = {max(present) + 1: key_made(), **present}
        _write(present)
    newest = next(iter(present))
    rows = Secret.objects.all()
    stale = [secret for secret in rows if _number(secret.sealed) != newest]
    if settings.SECRETS_KEYS is not None and rows and not stale:
        raise Conflict(
            "Every secret has the newest key. Put a new one first in SECRETS_KEYS, start anew, run this again."
        )
    for secret in stale:
        sealed = secret_encrypt(secret, _opened(secret, present))
        # Guarded: a value that was replaced meanwhile has the newest key already.
        Secret.objects.filter(pk=secret.pk, sealed=secret.sealed).update(sealed=sealed)
    if settings.SECRETS_KEYS is None:
        used = {_number(sealed) for sealed in Secret.objects.values_list("sealed", flat=True)}
        before = list(present)[:2]
        _write({number: key for number, key in present.items() if number in used or number in before})
    return newest, len(rows)


def _opened(secret: Secret, keys: Mapping[int, bytes]) -> str:
    number, _, encoded = secret.sealed.partition(":")
    key = keys.get(int(number)) if number.isdigit() else None
    if key is None:
        raise SecretUnreadable(f"The secret {secret.name} needs key {number[:10]}, which is not there.")
    try:
        content = base64.b64decode(encoded, validate=True)
        return AESGCM(key).decrypt(content[:_NONCE_BYTES], content[_NONCE_BYTES:], _bound_to(secret)).decode()
    except (InvalidTag, binascii.Error, ValueError):
        raise SecretUnreadable(f"The secret {secret.name} does not open with key {number}.") from None


def _number(sealed: str) -> int:
    number = sealed.partition(":")[0]
    return int(number) if number.isdigit() else 0


def _bound_to(secret: Secret) -> bytes:
    owner = f"user {secret.user_id}" if secret.user_id is not None else f"queue {secret.queue_id}"
    return f"{owner} {secret.name}".encode()


def _file() -> Path:
    return Path(settings.VAR_DIR) / FILE


def _write(keys: Keys) -> None:
    partial = _file().with_name(f".{FILE}.new")
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(keys_written(keys))
        file.flush()
        os.fsync(file.fileno())
    partial.replace(_file())
