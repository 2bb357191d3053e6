"""The grant of a running attempt: cores and memory that it may use now, told from agent to supervisor to job. Pure."""

import json
from dataclasses import dataclass
from typing import Any

from agents.protocol.errors import Malformed
from agents.protocol.fields import plain, read_int, read_ints, read_opt_int


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """Cores and memory that an attempt may use.

    Attributes:
        num_cpus: Granted cores: as many threads pay.
        memory_bytes: Granted memory, items of datasets that it keeps in shared memory included.
        cores: Cores of the machine that it is kept on; empty where it is not kept on any.
        idle_cores: Cores of the machine in no other attempt's use, which it may use while it is measured.
        measure_above: It is to be measured where it can use more cores than this; None when it is not.
    """

    num_cpus: int
    memory_bytes: int
    cores: tuple[int, ...]
    idle_cores: tuple[int, ...] = ()
    measure_above: int | None = None

    @property
    def cores_at_most(self) -> tuple[int, ...]:
        """Return the cores that it may come to use: also the idle ones for a job that is measured."""
        return self.cores if self.measure_above is None or not self.cores else (*self.cores, *self.idle_cores)

    @staticmethod
    def read(data: dict[str, Any]) -> "Grant":
        """Read it out of JSON. Raises Malformed, KeyError, TypeError."""
        return Grant(
            num_cpus=read_int(data, "num_cpus", low=1),
            memory_bytes=read_int(data, "memory_bytes"),
            cores=read_ints(data, "cores"),
            idle_cores=read_ints(data, "idle_cores"),
            measure_above=read_opt_int(data, "measure_above"),
        )

    @staticmethod
    def parse(content: bytes) -> "Grant | None":
        """Read the file's content; None when it is not ours."""
        try:
            return Grant.read(json.loads(content))
        except (Malformed, ValueError, KeyError, TypeError, AttributeError):
            return None

    def encode(self) -> bytes:
        """Return the file's content."""
        return json.dumps(plain(self), separators=(",", ":")).encode()
