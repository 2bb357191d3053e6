"""Reads a cluster from a JSON or YAML file, with every mistake named by its field.

The file holds ``servers``, a list of groups (``count``, ``gpus``, ``cpus``, ``memory_gb``, ``rack``), and may hold
``queues`` (``name``, ``parent``, ``quota``, ``weight``, ``may_borrow``, ``max``). A plain list is one of servers.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scheduler.simulator.errors import BadInput
from scheduler.simulator.study.cluster import GB, MOST_SERVERS, Cluster, QueueSpec, ServerGroup

_LARGEST_FILE_BYTES = 4 * 10**6

Json = Any  # what a JSON or YAML file holds, until it is checked here


def read_cluster(path: Path, *, racks: int = 1) -> Cluster:
    """Return the cluster in a file.

    Raises:
        BadInput: With the field and what would be right.
    """
    content = _load(path)
    if isinstance(content, list):
        content = {"servers": content}
    if not isinstance(content, dict):
        raise BadInput(f"{path}: must hold `servers`, a list of server groups.")
    fields = _Fields(str(path), content, known=("servers", "queues"))
    groups = tuple(_group(f"{path}: servers[{at}]", item) for at, item in enumerate(fields.items("servers")))
    if not groups:
        raise BadInput(
            f"{path}: servers is empty. Name at least one group: {{count: 16, gpus: 8, cpus: 24, memory_gb: 500}}."
        )
    cluster = Cluster(groups=groups, racks=racks)
    if cluster.num_servers > MOST_SERVERS:
        raise BadInput(
            f"{path}: {cluster.num_servers:,} servers are more than the {MOST_SERVERS:,} that can be simulated."
        )
    queues = [_queue(f"{path}: queues[{at}]", item) for at, item in enumerate(fields.items("queues"))]
    return Cluster(groups=groups, racks=racks, queues=_checked_tree(str(path), queues, cluster.num_gpus))


def _load(path: Path) -> Json:
    try:
        if path.stat().st_size > _LARGEST_FILE_BYTES:
            raise BadInput(
                f"{path}: larger than {_LARGEST_FILE_BYTES // 10**6} MB. A cluster file lists groups, not servers."
            )
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(
            f"{path}: cannot be read: {getattr(error, 'strerror', None) or 'it is not UTF-8 text'}."
        ) from None
    return _json(path, text) if path.suffix == ".json" else _yaml(path, text)


def _json(path: Path, text: str) -> Json:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise BadInput(f"{path}: line {error.lineno} is not JSON: {error.msg}.") from None


def _yaml(path: Path, text: str) -> Json:
    import yaml  # only such a file needs it: commands start without it

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1} " if mark else ""
        raise BadInput(
            f"{path}: {where}is not YAML: {getattr(error, 'problem', None) or 'cannot be parsed'}."
        ) from None


class _Fields:
    """The fields of one mapping, each read once with its check."""

    def __init__(self, where: str, content: Json, *, known: tuple[str, ...]) -> None:
        if not isinstance(content, Mapping):
            raise BadInput(f"{where} must be a mapping with {', '.join(known)}.")
        unknown = [str(name) for name in content if name not in known]
        if unknown:
            raise BadInput(f"{where} has no field {unknown[0]}. There is {', '.join(known)}.")
        self._where, self._content = where, content

    def items(self, name: str) -> list[Json]:
        found = self._content.get(name) or []
        if not isinstance(found, list):
            raise BadInput(f"{self._where}: {name} must be a list.")
        return found

    def number(self, name: str, default: float | None, *, least: float, whole: bool = False) -> float:
        value = self._content.get(name, default)
        kind = "a whole number" if whole else "a number"
        if value is None:
            raise BadInput(f"{self._where}: {name} is missing; it must be {kind} of at least {least:g}.")
        number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if not number or value < least or (whole and value != int(value)):
            raise BadInput(f"{self._where}: {name} must be {kind} of at least {least:g}. It is {value!r}.")
        return float(value)

    def whole(self, name: str, default: int | None, *, least: int) -> int:
        return int(self.number(name, default, least=least, whole=True))

    def optional_whole(self, name: str, *, least: int) -> int | None:
        return None if self._content.get(name) is None else self.whole(name, None, least=least)

    def flag(self, name: str, default: bool) -> bool:
        value = self._content.get(name, default)
        if not isinstance(value, bool):
            raise BadInput(f"{self._where}: {name} must be true or false. It is {value!r}.")
        return value

    def text(self, name: str) -> str | None:
        value = self._content.get(name)
        if value is None:
            return None
        if isinstance(value, bool | list | dict) or not str(value).strip():
            raise BadInput(f"{self._where}: {name} must be a name. It is {value!r}.")
        return str(value)


def _group(where: str, content: Json) -> ServerGroup:
    fields = _Fields(where, content, known=("count", "gpus", "cpus", "memory_gb", "rack"))
    return ServerGroup(
        count=fields.whole("count", 1, least=1),
        gpus=fields.whole("gpus", None, least=1),
        cpus=fields.number("cpus", None, least=1),
        memory_bytes=fields.number("memory_gb", None, least=1) * GB,
        rack=fields.optional_whole("rack", least=0),
    )


def _queue(where: str, content: Json) -> QueueSpec:
    fields = _Fields(where, content, known=("name", "parent", "quota", "weight", "may_borrow", "max"))
    name = fields.text("name")
    if name is None:
        raise BadInput(f"{where}: name is missing.")
    return QueueSpec(
        name=name,
        parent=fields.text("parent"),
        quota_gpus=fields.whole("quota", 0, least=0),
        weight=fields.number("weight", 1.0, least=1e-6),
        may_borrow=fields.flag("may_borrow", True),
        max_gpus=fields.optional_whole("max", least=0),
    )


def _checked_tree(where: str, queues: list[QueueSpec], cluster_gpus: int) -> tuple[QueueSpec, ...]:
    """Return the queues after checks of names, parents and sums."""
    names: set[str] = set()
    for queue in queues:
        if queue.name in names:
            raise BadInput(f"{where}: queue {queue.name} stands twice.")
        if queue.parent is not None and queue.parent not in names:
            raise BadInput(
                f"{where}: queue {queue.name} has the parent {queue.parent}, which does not stand before it."
            )
        names.add(queue.name)
    promised = sum(queue.quota_gpus for queue in queues if queue.parent is None)
    if promised > cluster_gpus:
        raise BadInput(f"{where}: the quotas promise {promised} GPUs. The cluster has {cluster_gpus}.")
    for parent in queues:
        below = sum(queue.quota_gpus for queue in queues if queue.parent == parent.name)
        if below > parent.quota_gpus:
            raise BadInput(
                f"{where}: the queues below {parent.name} are promised {below} GPUs. "
                f"Its own quota is {parent.quota_gpus}."
            )
    return tuple(queues)
