"""Measurement of a job: speed by core count and rates of dataset reads. Pure data, strict reader."""

from dataclasses import dataclass
from typing import Any

from agents.protocol.errors import Malformed
from agents.protocol.fields import (
    LEAST_STEPS_PER_S,
    MOST_BYTES,
    MOST_PAUSE_S,
    MOST_STEPS_PER_S,
    read_float,
    read_int,
    read_list,
    read_opt_float,
)

MOST_POINTS = 64
MOST_CORES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One measurement of a job, taken while it trained.

    Attributes:
        rates: (cores of the job, steps a second), ascending by cores.
        free_cores: Cores that it could use, those of its lease and idle ones of the server.
        took_s: How long it trained with other cores than it was granted, seconds.
        error: Largest standard error of a speed relative to that on the most cores; None when not known.
        model_bytes, largest_tensor_bytes: Of its parameters; None when it has none of torch.
        read_bytes_per_step: Raw items that it reads; None without a dataset of ours, as all that follows.
        dataset_bytes: All raw items.
        disk_bytes_per_s, memory_bytes_per_s: Rates at which items came from storage and from the cache.
        cache_bytes: What its cache held at the end.
    """

    rates: tuple[tuple[int, float], ...]
    free_cores: int
    took_s: float
    error: float | None = None
    model_bytes: float | None = None
    largest_tensor_bytes: float | None = None
    read_bytes_per_step: float | None = None
    dataset_bytes: float | None = None
    disk_bytes_per_s: float | None = None
    memory_bytes_per_s: float | None = None
    cache_bytes: float | None = None

    @staticmethod
    def parse(data: Any) -> "Measured":
        """Read it out of JSON. Raises Malformed, KeyError, TypeError."""
        rates = tuple(_rate(pair) for pair in read_list(data, "rates", most=MOST_POINTS))
        if [cores for cores, _ in rates] != sorted({cores for cores, _ in rates}) or not rates:
            raise Malformed("rates")
        return Measured(
            rates=rates,
            free_cores=read_int(data, "free_cores", low=1, high=MOST_CORES),
            took_s=read_float(data, "took_s", high=MOST_PAUSE_S),
            error=read_opt_float(data, "error", high=1e6),
            model_bytes=read_opt_float(data, "model_bytes", high=MOST_BYTES),
            largest_tensor_bytes=read_opt_float(data, "largest_tensor_bytes", high=MOST_BYTES),
            read_bytes_per_step=read_opt_float(data, "read_bytes_per_step", high=MOST_BYTES),
            dataset_bytes=read_opt_float(data, "dataset_bytes", high=MOST_BYTES),
            disk_bytes_per_s=read_opt_float(data, "disk_bytes_per_s", high=MOST_BYTES),
            memory_bytes_per_s=read_opt_float(data, "memory_bytes_per_s", high=MOST_BYTES),
            cache_bytes=read_opt_float(data, "cache_bytes", high=MOST_BYTES),
        )


def _rate(pair: Any) -> tuple[int, float]:
    if not isinstance(pair, list | tuple) or len(pair) != 2:
        raise Malformed("rates")
    named = {"cores": pair[0], "rate": pair[1]}
    rate = read_float(named, "rate", low=LEAST_STEPS_PER_S, high=MOST_STEPS_PER_S)
    return read_int(named, "cores", low=1, high=MOST_CORES), rate
