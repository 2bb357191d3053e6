"""The result of translating a foreign job file: a spec, and what did not map."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from scheduler.core.spec.limits import NAME_CHARS

Fields = Mapping[str, Any]  # parsed YAML


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmapped:
    """Something of the original that the spec does not say.

    Attributes:
        source: The line or field as it stood.
        why: One sentence: what Clusterweb does instead, or what to do.
    """

    source: str
    why: str


@dataclass(slots=True, kw_only=True)
class Translation:
    """A spec under construction, and what did not fit into it.

    Attributes:
        spec: Plain data for ``JobSpec.parse``; it may still be refused there, such as for a missing queue.
        unmapped: What is not in it.
    """

    spec: dict[str, Any] = field(default_factory=lambda: {"apiVersion": "v1"})  # JSON
    unmapped: list[Unmapped] = field(default_factory=list)

    def put(self, section: str, name: str, value: object) -> None:
        """Set one field of a section of the spec."""
        self.spec.setdefault(section, {})[name] = value

    def put_gpus(self, gpus: int) -> None:
        """Set the GPUs of the gang, at least one."""
        if not gpus:
            self.skip("no GPU is asked for", "Every job has at least one GPU; it gets one.")
        self.put("resources", "gpus", max(1, gpus))

    def skip(self, source: str, why: str) -> None:
        """Note what does not map."""
        self.unmapped.append(Unmapped(source=source, why=why))


def fields_of(data: Fields, name: str) -> Fields:
    """Return the mapping that stands under a name; empty where there is none."""
    value = data.get(name)
    return value if isinstance(value, Mapping) else {}


def plain_name(text: str, *, otherwise: str) -> str:
    """Return the text as a name of a job: other characters become dashes."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", text).lstrip("._-")[:NAME_CHARS]
    return name or otherwise
