"""The HTTP client for user-entered addresses: private ones are refused in every form, slow ones are cut off."""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from scheduler.notices.safe_http import post
from scheduler.services.public_address import AddressRefused, check_address
from tests.support.rows.notices import HERE, Receiver


@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1/",
        "https://localhost/",
        "https://2130706433/",  # 127.0.0.1 as one number
        "https://0x7f.1/",
        "https://0/",
        "https://10.1.2.3/",
        "https://192.168.0.1:8443/",
        "https://169.254.169.254/latest/meta-data/",
        "https://100.64.0.1/",
        "https://[::1]/",
        "https://[::ffff:127.0.0.1]/",
        "https://[64:ff9b::7f00:1]/",
        "https://[2002:7f00:1::]/",
        "https://[fd00::1]/",
        "https://[fe80::1]/",
        "https://224.0.0.1/",
        "https://no-such-name.invalid/",
        "http://8.8.8.8/",
        "ftp://8.8.8.8/",
        "https:///nowhere",
    ],
)
def test_address_inside_is_refused_in_every_disguise(url: str) -> None:
    """Whoever may type an address cannot make us call our own network."""
    with pytest.raises(AddressRefused):
        check_address(url, allowed=[])


def test_name_with_one_address_inside_is_refused() -> None:
    """Which of its addresses is taken must not matter."""
    with pytest.raises(AddressRefused, match="no public address"):
        check_address("https://twofold.example/", allowed=[], resolve=lambda host, port: ["8.8.8.8", "10.0.0.1"])


def test_name_is_resolved_once_and_connected_to_what_was_checked(receiver: Receiver) -> None:
    """A name that answers another address the second time (rebinding) changes nothing."""
    port = receiver.server.server_port
    answers = iter([["127.0.0.1"], ["10.0.0.1"]])
    url = f"http://moves.example:{port}/x"

    assert post(url, b"{}", {}, allowed=HERE, resolve=lambda host, port: next(answers)) == 204
    assert receiver.requests[0][0]["Host"] == f"moves.example:{port}"
    assert next(answers) == ["10.0.0.1"]


def test_redirect_is_not_followed(receiver: Receiver) -> None:
    """It would lead to an unchecked address."""
    receiver.statuses = [302]

    assert post(receiver.url, b"{}", {}, allowed=HERE) == 302
    assert len(receiver.requests) == 1


@contextmanager
def dripping(says: bytes, reached: threading.Event) -> Iterator[str]:
    """Yield where a server sends ``says`` and then byte after byte; at the end its connection must be closed."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def drip() -> None:
            with contextlib.suppress(OSError):
                connection, _ = listener.accept()
                reached.set()
                with connection:
                    connection.sendall(says)
                    while True:
                        connection.sendall(b"X")
                        time.sleep(0.05)

        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)  # nothing came within the deadline: it waits no longer
        thread.join(300)

        assert not thread.is_alive(), "the connection is still open"


def cut_at_the_deadline(scheme: str, says: bytes) -> None:
    """Post to a server that drips; with a longer deadline where the machine was too busy to connect before it."""
    reached = threading.Event()
    for deadline_s in (0.4, 4.0, 40.0):
        with dripping(says, reached) as place, pytest.raises(AddressRefused, match="No answer within"):
            post(f"{scheme}://{place}/", b"{}", {}, allowed=HERE, deadline_s=deadline_s)
        if reached.is_set():
            return
    raise AssertionError("no connection was made")


@pytest.mark.parametrize("says", [b"", b"HTTP/1.1 200 OK\r\n"])
def test_answer_that_drips_is_cut_at_the_deadline(connections: None, says: bytes) -> None:
    """Each byte would begin the socket's own timeout anew."""
    cut_at_the_deadline("http", says)


def test_tls_that_drips_is_cut_at_the_deadline(connections: None) -> None:
    """The head of a record of 16 KiB, then a byte at a time: a handshake that would last for minutes."""
    cut_at_the_deadline("https", b"\x16\x03\x03\x3f\xff")


def test_name_that_is_not_found_in_time_is_given_up() -> None:
    """The system's look-up has no end that we could set."""
    answers = threading.Event()

    def resolve(host: str, port: int) -> list[str]:
        answers.wait(300)
        return ["8.8.8.8"]

    with pytest.raises(AddressRefused, match="not found within"):
        post("https://slow.example/", b"{}", {}, allowed=[], resolve=resolve, deadline_s=0.1)
    answers.set()
