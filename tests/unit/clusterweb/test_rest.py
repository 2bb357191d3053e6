"""The command's HTTP: a server that goes away in the middle is asked again, and never answered by a traceback."""

import urllib.request
from collections.abc import Callable
from email.message import Message
from http.client import IncompleteRead, RemoteDisconnected

import pytest

from clusterweb.client import rest
from clusterweb.client.account import Account
from clusterweb.client.errors import CommandError
from clusterweb.client.rest import Rest


class Answer:
    """An answer whose reading may break off."""

    headers = Message()

    def __init__(self, error: Exception | None = None) -> None:
        self._error = error

    def __enter__(self) -> "Answer":
        return self

    def __exit__(self, *_: object) -> None:
        """Close nothing."""

    def read(self) -> bytes:
        """Return the body. Raises the error."""
        if self._error is not None:
            raise self._error
        return b'{"number": 7}'


def asked(monkeypatch: pytest.MonkeyPatch, answer: Callable[[int], Answer]) -> list[str | None]:
    """Have ``answer`` give the answers by their place; return the keys of the requests so far."""
    keys: list[str | None] = []

    def opened(request: urllib.request.Request, timeout: float) -> Answer:
        keys.append(request.get_header("Idempotency-key"))
        return answer(len(keys))

    monkeypatch.setattr(rest._opener, "open", opened)
    monkeypatch.setattr(rest, "_AGAIN_S", (0.0, 0.0))
    return keys


@pytest.mark.parametrize("error", [RemoteDisconnected("gone"), ConnectionResetError("reset"), TimeoutError("slow")])
@pytest.mark.parametrize("in_body", [False, True])
def test_a_server_that_restarts_is_asked_again_with_the_same_key(
    error: Exception, in_body: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it answers or in the middle of the body: what was stored is not stored again."""

    def answer(place: int) -> Answer:
        if place > 1:
            return Answer()
        if not in_body:
            raise error
        return Answer(error)

    keys = asked(monkeypatch, answer)

    assert Rest(Account(url="http://cluster", token="t")).post("jobs", b"{}") == {"number": 7}
    assert len(keys) == 2
    assert keys[0] == keys[1] is not None


@pytest.mark.parametrize("error", [RemoteDisconnected("gone"), IncompleteRead(b"")])
def test_a_server_that_stays_away_is_told_in_a_sentence(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the last try."""
    asked(monkeypatch, lambda place: Answer(error))

    with pytest.raises(CommandError, match=r"^http://cluster does not answer: "):
        Rest(Account(url="http://cluster", token="t")).get("jobs")


def test_a_write_without_a_key_is_not_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answer may have been lost after it was done: an uploaded trace would be stored twice."""

    def answer(place: int) -> Answer:
        raise RemoteDisconnected("gone")

    keys = asked(monkeypatch, answer)

    with pytest.raises(CommandError, match="does not answer"):
        Rest(Account(url="http://cluster", token="t")).upload("whatif/traces", b"x", content_type="text/csv")
    assert keys == [None]
