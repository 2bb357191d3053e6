"""The JSON Schema of a job spec, for REST docs, editors and the form. Ranges come from ``limits.py``."""

import re
from typing import Any

from scheduler.core.spec import limits as limit
from scheduler.core.spec.array import array_schema
from scheduler.core.spec.code import code_schema
from scheduler.core.spec.depends_on import depends_on_schema
from scheduler.core.spec.env import env_schema
from scheduler.core.spec.launch import PERS
from scheduler.core.spec.python import python_schema
from scheduler.core.spec.units import DURATION_UNITS_S, SIZE_UNITS_BYTES, format_duration, format_size

Schema = dict[str, Any]  # JSON

_NUMBER = r"[0-9]{1,15}(\.[0-9]{1,6})? ?"


def job_spec_schema() -> Schema:
    """Return the JSON Schema (draft 2020-12).

    It takes whatever ``JobSpec.parse`` takes (but for null in place of a default) and what ``JobSpec.to_json`` writes.
    Sums of bytes, ranges of sizes and durations, and reserved names are beyond it.
    """
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Job",
        "description": "A training job: what to run, in which queue, with how much. Unknown keys are errors.",
        "type": "object",
        "additionalProperties": False,
        "required": ["apiVersion", "name", "queue", "command"],
        "properties": {**_what(), **_how()},
    }


def _what() -> Schema:
    return {
        "apiVersion": {"const": limit.API_VERSION, "description": "Version of this format."},
        "name": _text("Shown everywhere; need not be unique.", most=limit.NAME_CHARS, pattern=limit.PLAIN_NAME)
        | {"examples": ["resnet-cifar"]},
        "queue": _text("Queue to submit to; it must have no queues under it.", most=limit.QUEUE_CHARS)
        | {"minLength": 1, "examples": ["vision"]},
        "command": {
            "description": "Program and arguments, one word each. No shell reads it.",
            "type": "array",
            "minItems": 1,
            "maxItems": limit.COMMAND_ITEMS,
            "items": {"type": "string", "maxLength": limit.COMMAND_ITEM_BYTES},
            "prefixItems": [{"type": "string", "minLength": 1}],
            "examples": [["python", "train.py", "--epochs", "3"]],
        },
        "code": code_schema(),
        "files": _map(
            f"Text files laid into the working directory, by plain name; {format_size(limit.FILES_BYTES)} in all.",
            names=limit.PLAIN_NAME,
            entries=limit.FILES,
            most=limit.FILES_BYTES,
        ),
        "python": python_schema(),
        "env": env_schema(
            _map(
                "Environment of the command: a text, or a secret by its name. Names that the cluster sets "
                f"({', '.join(sorted(limit.RESERVED_ENV))}, {'*, '.join(limit.RESERVED_ENV_PREFIXES)}*) are refused.",
                names=limit.ENV_NAME,
                entries=limit.ENV_ENTRIES,
                most=limit.ENV_VALUE_BYTES,
            )
        ),
    }


def _how() -> Schema:
    disk, grace = format_size(limit.DEFAULT_DISK_BYTES), format_duration(limit.DEFAULT_GRACE_S)
    return {
        "resources": _section(
            "What the job holds while it runs, all its GPUs together.",
            gpus=_number("GPUs, all or none.", "integer", limit.GPUS, default=1),
            min_gpus=_whole_number("Fewest GPUs that an elastic job goes on with; gpus when left out.", limit.GPUS),
            max_gpus=_whole_number("Most GPUs that an elastic job can use; gpus when left out.", limit.GPUS),
            max_servers=_number(
                "Most servers that the GPUs may be spread over. See launch for where its command starts then.",
                "integer",
                limit.SERVERS,
                default=1,
            ),
            cpus=_or_auto("Cores; auto takes what the profile can use.", {"type": "number"} | _range(limit.CPUS)),
            memory=_or_auto("Memory with its unit, such as 64GiB; auto as for cpus.", _size(limit.MEMORY_BYTES)),
            disk=_size(limit.DISK_BYTES) | {"description": "Most bytes in the working directory.", "default": disk},
        ),
        "launch": _section(
            "How often the command is started.",
            per={
                "description": "job: once, on one server. server: once on each server, with all its GPUs there, for "
                "torchrun and the like. gpu: once for every GPU, as a rank of one gang. When left out: gpu for a job "
                "of several servers or with fewer min_gpus than max_gpus, else job.",
                "enum": list(PERS),
            },
        ),
        "schedule": _section(
            "When it runs.",
            priority=_number("Larger goes first where the policy looks at it.", "integer", limit.PRIORITY, default=50),
            preemptible={
                "description": "Whether it may be stopped for another job; it resumes from its checkpoint.",
                "type": "boolean",
                "default": True,
            },
            max_duration={
                "description": "Run time after which it is ended; null for no limit.",
                "anyOf": [_duration(limit.DURATION_S), {"type": "null"}],
                "default": None,
            },
            warn_before={
                "description": "How long before max_duration it is asked to end; null for not at all.",
                "anyOf": [_duration(limit.WARN_BEFORE_S), {"type": "null"}],
                "default": None,
            },
        ),
        "checkpoint": _section(
            "Before it is stopped.",
            grace=_duration(limit.GRACE_S) | {"description": "Time to write a checkpoint.", "default": grace},
            signal={
                "description": "What every process of the job gets when it is to end, without SIG.",
                "type": "string",
                "enum": list(limit.STOP_SIGNALS),
                "default": limit.STOP_SIGNALS[0],
            },
        ),
        "retry": _section(
            "After it fails by itself.",
            max=_number("How often it starts again.", "integer", limit.RETRIES, default=4),
        ),
        "progress": _section(
            "What it will report.",
            total_steps={
                "description": "Mini-batches of the whole training; null when unknown.",
                "anyOf": [{"type": "integer"} | _range(limit.STEPS), {"type": "null"}],
                "default": None,
            },
            stall={
                "description": "It is ended when no progress follows its last for so long; null for never.",
                "anyOf": [_duration(limit.STALL_S), {"type": "null"}],
                "default": None,
            },
            early_stop={
                "description": "Whether it is complete as soon as its loss has stopped falling.",
                "type": "boolean",
                "default": False,
            },
        ),
        "profile": _text("Name of a measured profile, such as resnet18; empty for unknown.", most=limit.NAME_CHARS)
        | {"default": ""},
        "labels": _map("Your own marks.", names=limit.LABEL_NAME, entries=limit.LABELS, most=limit.LABEL_CHARS),
        "array": array_schema(),
        "depends_on": depends_on_schema(),
    }


def _whole(pattern: re.Pattern[str]) -> str:
    return f"^(?:{pattern.pattern})$"


def _text(description: str, *, most: int, pattern: re.Pattern[str] | None = None) -> Schema:
    schema: Schema = {"description": description, "type": "string", "maxLength": most}
    return schema if pattern is None else schema | {"pattern": _whole(pattern)}


def _range(limits: tuple[float, float]) -> Schema:
    return {"minimum": limits[0], "maximum": limits[1]}


def _number(description: str, kind: str, limits: tuple[float, float], *, default: float) -> Schema:
    return {"description": description, "type": kind, "default": default} | _range(limits)


def _whole_number(description: str, limits: tuple[int, int]) -> Schema:
    return {"description": description, "type": "integer"} | _range(limits)


def _or_auto(description: str, schema: Schema) -> Schema:
    return {"description": description, "anyOf": [{"const": "auto"}, schema], "default": "auto"}


def _size(limits: tuple[int, int]) -> Schema:
    low, high = limits
    return {
        "type": "string",
        "pattern": f"^{_NUMBER}({'|'.join(SIZE_UNITS_BYTES)})$",
        "description": f"A size from {format_size(low)} to {format_size(high)}.",
        "examples": ["4GiB", "512MiB"],
    }


def _duration(limits: tuple[float, float]) -> Schema:
    low, high = limits
    return {
        "type": "string",
        "pattern": f"^{_NUMBER}({'|'.join(DURATION_UNITS_S)})$",
        "description": f"A time from {format_duration(low)} to {format_duration(high)}.",
        "examples": ["90s", "20m", "48h"],
    }


def _section(description: str, /, **properties: Schema) -> Schema:
    return {
        "description": description,
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
    }


def _map(description: str, *, names: re.Pattern[str], entries: int, most: int) -> Schema:
    return {
        "description": description,
        "type": "object",
        "maxProperties": entries,
        "propertyNames": {"pattern": _whole(names)},
        "additionalProperties": {"type": "string", "maxLength": most},
        "default": {},
    }
