"""A spec as readable YAML, and the line of a spec that an error is about."""

from typing import Any

import yaml

from scheduler.core.model.errors import SpecInvalid
from scheduler.selectors.rows import Json
from scheduler.services.jobs.spec_text import spec_from_text

EXAMPLE = """\
apiVersion: v1
name: my-training
queue: {queue}
command: [python, train.py]
files:
  train.py: |
    print("hello")
resources:
  gpus: 1
"""


# Letters that YAML takes for line breaks or drops: they are written as escapes.
ODD_BREAKS = frozenset("\r\x85\u2028\u2029\ufeff")


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks and lists of words on one line."""


def _text(dumper: _Dumper, value: str) -> yaml.ScalarNode:
    style = '"' if ODD_BREAKS & set(value) else "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


def _words(dumper: _Dumper, value: list[object]) -> yaml.SequenceNode:
    short = sum(len(str(item)) + 2 for item in value) < 100 and not any("\n" in str(item) for item in value)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", value, flow_style=short)


_Dumper.add_representer(str, _text)
_Dumper.add_representer(list, _words)


def spec_as_yaml(spec: Json) -> str:
    """Return a spec as YAML that reads back as the same spec."""
    return yaml.dump(  # a dumper, not the loader that is banned
        spec, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100, default_flow_style=False
    )


def line_of(text: str, pointer: str) -> int | None:
    """Return the line (from 1) of a YAML or JSON text that a JSON pointer leads to, or the nearest above it."""
    try:
        spec_from_text(text)  # refuses what would take long to walk
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except (SpecInvalid, yaml.YAMLError):
        return None
    line: int | None = None
    for step in pointer.removeprefix("/").split("/") if pointer else []:
        key = step.replace("~1", "/").replace("~0", "~")
        found = _child(node, key)
        if found is None:
            break
        line, node = found
    return line


def _child(node: Any, key: str) -> tuple[int, Any] | None:  # PyYAML's nodes have no types
    if isinstance(node, yaml.MappingNode):
        for name, value in node.value:
            if isinstance(name, yaml.ScalarNode) and name.value == key:
                return name.start_mark.line + 1, value
    elif isinstance(node, yaml.SequenceNode) and key.isdigit() and int(key) < len(node.value):
        value = node.value[int(key)]
        return value.start_mark.line + 1, value
    return None
