"""Lines that a hostile job may write where its reports are expected: each by chance, all from one generator."""

import json
from copy import deepcopy
from random import Random
from typing import Any

from agents.core.records import JOB_EVENTS

# What ends a naive reader: zero, the ends of ranges, what overflows, what is no number, what is no text.
NUMBERS: tuple[Any, ...] = (
    *(0, -1, 1, 2, 7, 10**12, 10**12 + 1, 2**53, 2**61, 2**62, 2**63, 2**64, 10**30, -(2**63)),
    *(0.0, -0.0, 0.5, 1e-9, 5e-324, 1e-300, 1e9, 1e12, 1e18, 1e300, 1.7976931348623157e308),
    *(float("nan"), float("inf"), float("-inf")),
)
OTHERS: tuple[Any, ...] = (
    *(None, True, False, "", "0", "1e9", "nan", "\x00", "\ud83d", "../../state.json", "x" * 500),
    *([], {}, [[]], [1, [2]], {"a": 1}, [[1, 1.0]]),
)
FIELDS = (
    *("step", "total_steps", "loss", "steps_per_s", "cached_frac", "measured", "request", "name", "version"),
    *("ranks", "pause_s", "event", "phase", "attempt_id", "extra"),
)
NAMES = ("step-000001.pt", "step-000007.pt", "../x", "a/b", ".", "-rf", "x" * 81, "\u202etp.x")
GARBAGE = (
    b"",
    b"{",
    b"null",
    b"[]",
    b'"progress"',
    b"\xff\xfe\x00",
    b"[" * 100_000,
    b'{"event":"progress","step":' + b"9" * 5_000 + b"}",
    b'{"event":"progress","step":1e999}',
    b'{"event":"progress","step":1,"step":"2"}',
    b'{"event":"progress","loss":"\\ud800"}',
    b'{"event":{"event":"progress"}}',
    b'{"event":["progress"]}',
    b'{"__proto__":1,"event":"completed","step":-0}',
)


def odd_line(rng: Random) -> bytes:
    """Return one line; about half of them look like a report."""
    if rng.random() < 0.1:
        return rng.choice(GARBAGE)
    data: dict[str, Any] = {"event": rng.choice(JOB_EVENTS)}
    if data["event"] == "checkpoint":
        data["name"] = rng.choice(NAMES)
    for _ in range(rng.randrange(5)):
        data[rng.choice(FIELDS)] = odd_value(rng)
    if data["event"] == "measured" and rng.random() < 0.8:
        data["measured"] = _measured(rng)
    return json.dumps(data).encode(errors="surrogatepass")


def odd_value(rng: Random) -> Any:  # JSON, or a number that JSON should not hold
    """Return one value that a reader may not expect."""
    if rng.random() < 0.75:
        return rng.choice(NUMBERS)
    return deepcopy(rng.choice(OTHERS))  # callers change what they get


def _measured(rng: Random) -> dict[str, Any]:
    cores = sorted(rng.sample((1, 2, 3, 4, 64, 4096, 2**40, 0), k=rng.randrange(1, 4)))
    rates = [[core, rng.choice(NUMBERS) if rng.random() < 0.6 else 1.0] for core in cores]
    data: dict[str, Any] = {"rates": rates, "free_cores": rng.choice((1, 2, 4, 4096, 0, 2**31)), "took_s": 1.0}
    for name in ("took_s", "error", "model_bytes", "dataset_bytes", "disk_bytes_per_s", "cache_bytes"):
        if rng.random() < 0.3:
            data[name] = odd_value(rng)
    return data
