"""Reads YAML or JSON text from the form, the REST API and the command line into plain data for ``JobSpec``.

Text that begins with a brace or bracket is JSON, any other YAML. It is not trusted: text that is too large, too deep,
repeats a key, or expands by aliases is refused, and no tag creates an object. ``scheduler/core/spec/spec.py`` decides
what the data means.
"""

import json
from collections.abc import Sequence
from typing import Any, NoReturn

import yaml

from scheduler.core.model.errors import FieldError, SpecInvalid

MAX_BYTES = 2 * 1024 * 1024
# A spec at all its limits has fewer than 2,000 nodes at a depth of 3.
MAX_NODES = 10_000
MAX_DEPTH = 16
MAX_ALIASES = 16

# The parser in C where the wheel has it: a hostile text of 2 MiB takes the one in Python many seconds.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # PyYAML has no types


def spec_from_text(text: str | bytes) -> object:
    """Return the data in YAML or JSON text.

    Raises:
        SpecInvalid: With one entry that says where the text goes wrong.
    """
    if len(text) > MAX_BYTES:
        _refuse("length", f"A spec may take at most 2 MiB. This one takes {len(text)} bytes.")
    try:
        decoded = text.decode("utf-8-sig") if isinstance(text, bytes) else text.removeprefix("\ufeff")
        if decoded.lstrip().startswith(("{", "[")):
            return _from_json(decoded)
        return _from_yaml(decoded)
    except json.JSONDecodeError as error:
        _refuse("syntax", f"Line {error.lineno}, column {error.colno}: {error.msg}.")
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"Line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        _refuse("syntax", f"{place}{error.problem or error.context}.")
    except yaml.YAMLError:
        _refuse("characters", "The spec holds a character that YAML does not allow.")
    except UnicodeError:
        _refuse("characters", "The spec is not UTF-8 text.")
    except RecursionError:
        _refuse("depth", f"The spec is nested more than {MAX_DEPTH} deep.")
    except ValueError:  # such as a number of 5,000 digits
        _refuse("range", "The spec holds a number that is too long.")


def _refuse(code: str, detail: str) -> NoReturn:
    raise SpecInvalid([FieldError(pointer="", code=code, detail=detail)]) from None


def _from_json(text: str) -> object:
    return json.loads(text, object_pairs_hook=_without_repeats, parse_constant=_no_constant)


def _without_repeats(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    data: dict[str, object] = {}
    for key, value in pairs:
        if key in data:
            _refuse("repeated", f"The key {key[:40]!r} is there twice.")
        data[key] = value
    return data


def _no_constant(name: str) -> NoReturn:
    _refuse("syntax", f"{name} is not a number that JSON has.")


def _from_yaml(text: str) -> object:
    _check_size(text)
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _check_keys(node, seen=set())
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _check_size(text: str) -> None:
    """Walk the events, which are made one by one, and stop at the first that is too much."""
    depth = nodes = aliases = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        aliases += isinstance(event, yaml.AliasEvent)
        nodes += isinstance(event, yaml.NodeEvent)
        if depth > MAX_DEPTH:
            _refuse("depth", f"The spec is nested more than {MAX_DEPTH} deep.")
        if aliases > MAX_ALIASES:
            _refuse("length", f"The spec may have at most {MAX_ALIASES} aliases.")
        if nodes > MAX_NODES:
            _refuse("length", f"The spec may have at most {MAX_NODES} values.")


def _check_keys(node: Any, seen: set[int]) -> None:  # a PyYAML node
    """Refuse a mapping that has one key twice: YAML would silently take the last."""
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _check_keys(item, seen)
    elif isinstance(node, yaml.MappingNode):
        keys: set[str] = set()
        for key, item in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in keys:
                    _refuse("repeated", f"Line {key.start_mark.line + 1}: the key {key.value[:40]!r} is there twice.")
                keys.add(key.value)
            _check_keys(item, seen)
