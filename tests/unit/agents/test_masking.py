"""Secrets in the output of a job: replaced by their names, wherever the output is cut."""

import base64
import json
import random
from urllib.parse import quote

import pytest

from agents.files.masking import Masker
from agents.protocol.job_secret import JobSecret

VALUE = "s3cr3t/va+lue=äö?0123456789"
KEY = "-----BEGIN KEY-----\nMIIEowIBAAKCAQEA7\nshort\nzZ9xQ1w2e3r4t5y6\n-----END KEY-----"


def secret(value: str, name: str = "wandb") -> JobSecret:
    return JobSecret(variable="V", name=name, value=value)


def shown(masker: Masker, *parts: bytes) -> bytes:
    return b"".join([*(masker.feed(part) for part in parts), masker.rest()])


@pytest.mark.parametrize(
    "form",
    [
        VALUE.encode(),
        quote(VALUE, safe="").encode(),
        json.dumps(VALUE)[1:-1].encode(),
        *(base64.b64encode(b"u" * before + VALUE.encode() + b":tail") for before in range(6)),
        base64.urlsafe_b64encode(b"user:" + VALUE.encode()),
    ],
)
def test_no_cut_of_the_output_lets_a_value_through(form: bytes) -> None:
    """Every place at which a read may end, and every pair of places around the value."""
    text = b"step 1\ntoken " + form + b" end\n"
    core = form[4:-8]
    for first in range(len(text)):
        out = shown(Masker([secret(VALUE)]), text[:first], text[first:])
        assert core not in out
        assert out.startswith(b"step 1\ntoken ")
        assert b"[wandb]" in out
        assert out.endswith(b"end\n")


def test_byte_by_byte_is_as_all_at_once() -> None:
    """The same output, however slowly it comes."""
    text = f"a{VALUE}b{VALUE[:-1]}c{VALUE}{VALUE}".encode()
    whole = shown(Masker([secret(VALUE)]), text)

    assert shown(Masker([secret(VALUE)]), *(text[at : at + 1] for at in range(len(text)))) == whole
    assert whole == f"a[wandb]b{VALUE[:-1]}c[wandb][wandb]".encode()


def test_value_that_begins_another_does_not_leave_its_rest() -> None:
    """The longer of two secrets with one begin is hidden whole, even where a read ends after the shorter."""
    masker = Masker([secret("password", "short"), secret("password-and-more", "long")])

    assert shown(masker, b"x password", b"-and-more y password z") == b"x [long] y [short] z"


def test_value_that_holds_the_begin_of_another_is_hidden_at_the_end_of_a_read() -> None:
    """What is held back for one secret must not show the middle of another."""
    masker = Masker([secret("xxxxabcdabcd", "one"), secret("abcd99999999", "two")])

    assert shown(masker, b"= xxxxabcdabcd", b"\n") == b"= [one]\n"


def test_each_line_of_a_value_is_hidden_by_itself() -> None:
    """A key of several lines, printed with something before each of them."""
    out = shown(Masker([secret(KEY, "ssh")]), "".join(f"> {line}\n" for line in KEY.splitlines()).encode())

    assert b"MIIEow" not in out
    assert b"zZ9xQ1" not in out
    assert b"> short\n" in out


def test_random_cuts_and_values_never_show_one() -> None:
    """Against a plain search in the whole output; values of few letters, so that begins meet often."""
    draw = random.Random(7)
    for _ in range(300):
        values = ["".join(draw.choices("ab", k=draw.randint(8, 12))) for _ in range(3)]
        text = "".join(draw.choices([*values, "a", "b", "ab", "\n"], k=12)).encode()
        parts, at = [], 0
        while at < len(text):
            step = draw.randint(1, 9)
            parts.append(text[at : at + step])
            at += step
        masker = Masker([secret(value, "S") for value in values])
        out = shown(masker, *parts)

        assert not any(value.encode() in out for value in values), (values, text, parts)


def test_output_without_secrets_is_not_touched_or_held() -> None:
    """A job that names none pays nothing, and a line that ends otherwise is shown at once."""
    data = bytes(range(256)) * 100

    assert Masker().feed(data) == data
    assert Masker([secret(VALUE)]).feed(b"loss 0.5\n") == b"loss 0.5\n"
