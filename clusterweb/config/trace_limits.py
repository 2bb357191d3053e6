"""How large an uploaded trace may be, and what reading it may cost, from the environment."""

from collections.abc import Mapping
from dataclasses import dataclass

from clusterweb.config.env_error import EnvError


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceLimits:
    """Limits of one uploaded trace beside its size as it is sent.

    Attributes:
        most_rows: Rows; for Parquet those that its footer tells, for text its lines.
        most_unpacked_mib: MiB that it unpacks to: gzip as a whole, Parquet by the sizes in its footer.
        read_s: CPU seconds of the process that checks it; it may take WALL_FACTOR times as long.
        read_mib: Address space of that process, MiB.
    """

    most_rows: int = 2_000_000
    most_unpacked_mib: int = 1024
    read_s: int = 30
    read_mib: int = 2048


def load_trace_limits(source: Mapping[str, str]) -> TraceLimits:
    """Return the limits of the environment.

    Raises:
        EnvError: If a value is no whole number in its range.
    """
    usual = TraceLimits()
    return TraceLimits(
        most_rows=_whole(source, "TRACE_MOST_ROWS", usual.most_rows, 1, 100_000_000),
        most_unpacked_mib=_whole(source, "TRACE_MOST_UNPACKED_MIB", usual.most_unpacked_mib, 1, 65_536),
        read_s=_whole(source, "TRACE_READ_S", usual.read_s, 1, 3600),
        read_mib=_whole(source, "TRACE_READ_MIB", usual.read_mib, 512, 1_048_576),
    )


def _whole(source: Mapping[str, str], name: str, usual: int, least: int, most: int) -> int:
    text = source.get(name) or str(usual)
    if not (text.isascii() and text.isdigit() and len(text) < 16 and least <= int(text) <= most):
        raise EnvError(f"{name}={text!r} cannot be used: it must be a whole number from {least} to {most}.")
    return int(text)
