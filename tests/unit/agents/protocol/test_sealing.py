"""Secrets on their way to a server: opened by that server, for that attempt, and by nothing else."""

import base64
from dataclasses import replace

import pytest

from agents.protocol.errors import Forged, Malformed
from agents.protocol.job_secret import JobSecret, secrets_read, secrets_written
from agents.protocol.sealing import secrets_seal, secrets_unseal

KEY, SERVER, ATTEMPT = b"k" * 32, "s0123456789a", "01JD0000000000000000000000"
SECRET = JobSecret(variable="WANDB_API_KEY", name="wandb", value="örtlich-0123456789\nline")


def sealed() -> str:
    return secrets_seal(key=KEY, server=SERVER, attempt_id=ATTEMPT, secrets=[SECRET])


def test_its_server_opens_what_was_sealed_for_an_attempt() -> None:
    """The way there and back."""
    assert secrets_unseal(key=KEY, server=SERVER, attempt_id=ATTEMPT, sealed=sealed()) == (SECRET,)
    assert sealed() != sealed()
    assert "0123456789" not in sealed()


@pytest.mark.parametrize(
    ("key", "server", "attempt_id"),
    [
        (b"x" * 32, SERVER, ATTEMPT),
        (KEY, "s0123456789b", ATTEMPT),
        (KEY, SERVER, "01JD0000000000000000000001"),
    ],
)
def test_another_key_server_or_attempt_opens_nothing(key: bytes, server: str, attempt_id: str) -> None:
    """An order that was moved, or a key that leaked elsewhere, gives nothing away."""
    with pytest.raises(Forged):
        secrets_unseal(key=key, server=server, attempt_id=attempt_id, sealed=sealed())


def test_changed_or_broken_text_is_refused() -> None:
    """Not one bit may differ."""
    content = bytearray(base64.b64decode(sealed()))
    content[20] ^= 1
    for text, error in (
        (base64.b64encode(content).decode(), Forged),
        (base64.b64encode(content[:8]).decode(), Malformed),
        ("not base64!", Malformed),
        ("", Malformed),
    ):
        with pytest.raises((error, Forged)):
            secrets_unseal(key=KEY, server=SERVER, attempt_id=ATTEMPT, sealed=text)


@pytest.mark.parametrize("content", [b"", b"[", b"{}x", b'[["A"]]', b"3", secrets_written([SECRET])[:-3]])
def test_secrets_that_are_not_whole_are_none_at_all(content: bytes) -> None:
    """What an agent that was killed half-way has handed over starts no job."""
    assert secrets_read(content) is None


def test_no_repr_shows_a_value() -> None:
    """Reprs end in logs and tracebacks."""
    assert "0123456789" not in repr(SECRET)
    assert "0123456789" not in repr(replace(SECRET, name="other"))
