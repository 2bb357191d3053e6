"""A secret of a job on its way to the process: as the scheduler seals it and as the agent hands it to a supervisor.

Standard library only, as supervisors read it; the encryption is in ``sealing.py``.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSecret:
    """One variable of the job and the value that it gets.

    Attributes:
        variable: Of the environment.
        name: Of the secret; the log shows it in place of the value.
        value: Never in a log, a file or a repr.
    """

    variable: str
    name: str
    value: str = field(repr=False)


def secrets_written(secrets: Iterable[JobSecret]) -> bytes:
    """Return secrets as ``secrets_read`` takes them."""
    return json.dumps([[one.variable, one.name, one.value] for one in secrets], ensure_ascii=False).encode()


def secrets_read(content: bytes) -> tuple[JobSecret, ...] | None:
    """Return the secrets; None when the content is not whole."""
    try:
        rows = [(str(variable), str(name), str(value)) for variable, name, value in json.loads(content)]
    except (ValueError, TypeError):
        return None
    return tuple(JobSecret(variable=variable, name=name, value=value) for variable, name, value in rows)
