"""Secrets of one attempt, encrypted for the one server that runs it.

AES-256-GCM with a key derived from the server's own, apart from the one that signs messages. Server and attempt are
bound in as associated data: what was sealed for one attempt opens for no other. The order that carries it is signed as
well, see ``signing.py``.
"""

import base64
import binascii
import os
from collections.abc import Iterable

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from agents.protocol.errors import Forged, Malformed
from agents.protocol.job_secret import JobSecret, secrets_read, secrets_written

_NONCE_BYTES = 12
_PURPOSE = b"clusterweb secrets of attempts, version 1"


def secrets_seal(*, key: bytes, server: str, attempt_id: str, secrets: Iterable[JobSecret]) -> str:
    """Return the secrets as text that only ``server`` opens, and only for ``attempt_id``."""
    nonce = os.urandom(_NONCE_BYTES)
    sealed = _cipher(key).encrypt(nonce, secrets_written(secrets), _bound_to(server, attempt_id))
    return base64.b64encode(nonce + sealed).decode()


def secrets_unseal(*, key: bytes, server: str, attempt_id: str, sealed: str) -> tuple[JobSecret, ...]:
    """Return the secrets. Raises Malformed, Forged."""
    try:
        content = base64.b64decode(sealed, validate=True)
        plain = _cipher(key).decrypt(content[:_NONCE_BYTES], content[_NONCE_BYTES:], _bound_to(server, attempt_id))
    except (binascii.Error, ValueError):
        raise Malformed("sealed") from None
    except InvalidTag:
        raise Forged("The secrets were not sealed for this attempt on this server.") from None
    secrets = secrets_read(plain)
    if secrets is None:
        raise Malformed("sealed")
    return secrets


def _cipher(key: bytes) -> AESGCM:
    return AESGCM(HKDF(algorithm=SHA256(), length=32, salt=None, info=_PURPOSE).derive(key))


def _bound_to(server: str, attempt_id: str) -> bytes:
    return f"{server}/{attempt_id}".encode()
