"""The environment of a job: plain values, and secrets by name; what looks like a secret is refused as a plain value.

env:
  SEED: "1"                                   plain: kept with the job, shown to its owner and to leads
  WANDB_API_KEY: {secret: wandb}              the owner's secret of that name, or else the queue's
  S3_KEY: {secret: datasets, of: queue}       the queue's, whatever the owner has
  RUN_TOKEN: {plain: "a1b2c3d4e5f6a7b8"}      said to be no secret, though it looks like one
"""

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from scheduler.core.model.errors import FieldError
from scheduler.core.spec import limits as limit
from scheduler.core.spec.reading import FieldReader, pointer_step, quoted, shown

Of = Literal["", "user", "queue"]
OWNERS: tuple[Of, ...] = ("user", "queue")
SECRET_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
SECRETS = 32  # variables of one job

_NAMES = re.compile(
    r"(?:^|_)(?:API_?KEY|ACCESS_?KEY|SECRET_?KEY|PRIVATE_?KEY|AUTH_?KEY|ENCRYPTION_?KEY|KEY|TOKEN|PAT)$", re.IGNORECASE
)
_PLAIN_NAMES = re.compile(r"(?:^|_)(?:PASSWORD|PASSWD|PASSPHRASE|PWD|SECRET|CREDENTIALS?)$", re.IGNORECASE)
_TOKENS = re.compile(
    r"^(?:(?:AKIA|ASIA)[A-Z0-9]{16}"
    r"|gh[pousr]_\w{30,}|github_pat_\w{30,}|glpat-[\w-]{16,}|hf_[A-Za-z0-9]{20,}|sk-[\w-]{20,}|[sr]k_live_\w{16,}"
    r"|xox[abeoprs]-[\w-]{16,}|AIza[\w-]{35}|ya29\.[\w-]{20,}|npm_\w{30,}|pypi-[\w-]{40,}|dckr_pat_[\w-]{20,}"
    r"|wandb_v1_\w{20,}|SG\.[\w-]{16,}\.[\w-]{16,}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)$"
)
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----")
_URL_PASSWORD = re.compile(r"://[^/\s:@]*:[^/\s@{$<]+@")
# Values that are no secrets: a number, a word for yes or no, a path, a placeholder, a special token of a tokenizer.
_HARMLESS = re.compile(
    r"[+-]?[\d.,_:]+(?:e[+-]?\d+)?|true|false|yes|no|on|off|none|null|[~./].*|[A-Za-z]:\\.*|\w+://[^@]*|[<\[{$%].*|\*+",
    re.IGNORECASE,
)
_LONG_TOKEN = re.compile(r"[A-Za-z0-9+/_=-]{32,200}")
_BITS_OF_CHANCE = 4.3  # entropy of each letter of a secret; text and names of files have less
_ENDING = re.compile(r"(?:_API)?(?:_ACCESS|_SECRET|_AUTH|_PRIVATE)?_?(?:KEY|TOKEN|PASSWORD|SECRET|PAT)$", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretUse:
    """A secret that a job names; ``of`` is whose it is: the owner's, the queue's, or empty for whichever there is."""

    name: str
    of: Of = ""

    def to_json(self) -> dict[str, str]:
        """Return it as it stands in a spec."""
        return {"secret": self.name} | ({"of": self.of} if self.of else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvFields:
    """The environment as read: by variable.

    Attributes:
        env: Plain values.
        secrets: Those whose values are secrets.
        said_plain: Variables whose values look like secrets and are said to be none.
    """

    env: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, SecretUse] = field(default_factory=dict)
    said_plain: frozenset[str] = frozenset()


def read_env(reader: FieldReader, value: object) -> EnvFields:
    """Return the environment; a bad variable is an entry of the reader and is left out."""
    data = reader.mapping(value, "/env", label="env", keys=None)
    reader.count("/env", "env", data, limit.ENV_ENTRIES)
    env: dict[str, str] = {}
    secrets: dict[str, SecretUse] = {}
    said_plain = set()
    for name, content in data.items():
        pointer = "/env" + pointer_step(name)
        if not limit.ENV_NAME.fullmatch(name):
            detail = f"{quoted(name)} cannot be the name of a variable: use letters, digits and '_'."
            reader.bad(pointer, "characters", detail)
        elif name in limit.RESERVED_ENV or name.startswith(limit.RESERVED_ENV_PREFIXES):
            reader.bad(pointer, "reserved", f"{shown(name)} is set by the cluster. Choose another name.")
        elif not isinstance(content, Mapping):
            env[name] = reader.text(content, pointer, label=f"env {name}", longest_bytes=limit.ENV_VALUE_BYTES)
        elif set(content) == {"plain"}:
            env[name] = reader.text(content["plain"], pointer, label=f"env {name}", longest_bytes=limit.ENV_VALUE_BYTES)
            said_plain |= {name} if looks_secret(name, env[name]) else set()
        elif (use := _read_use(reader, content, name, pointer)) is not None:
            secrets[name] = use
    reader.total("/env", "env", [*env, *env.values()], limit.ENV_BYTES)
    if len(secrets) > SECRETS:
        reader.bad("/env", "length", f"env may name at most {SECRETS} secrets. It names {len(secrets)}.")
    return EnvFields(env=env, secrets=secrets, said_plain=frozenset(said_plain))


def _read_use(reader: FieldReader, content: Mapping[Any, object], name: str, pointer: str) -> SecretUse | None:
    if set(content) == {"hidden"}:
        detail = f"{name} has a value that only the owner and leads see. Write a value of your own, or leave it out."
        reader.bad(pointer, "hidden", detail)
        return None
    example = f"{name}: {{secret: {name_for(name)}}}"
    if not {"secret"} <= set(content) <= {"secret", "of"}:
        reader.bad(pointer, "unknown", f"env {name} must be text, or name a secret: {example}.")
        return None
    secret, of = content["secret"], content.get("of", "")
    if not isinstance(secret, str) or not SECRET_NAME.fullmatch(secret):
        right = "begin with a letter or digit and hold at most 63 letters, digits, '.', '_' and '-'"
        reader.bad(f"{pointer}/secret", "characters", f"The name of a secret must {right}.")
        return None
    for one in OWNERS:
        if of == one:
            return SecretUse(name=secret, of=one)
    if of not in ("", None):
        reader.bad(f"{pointer}/of", "unknown", f"of is user or queue, not {quoted(of)}.")
        return None
    return SecretUse(name=secret)


def env_json(
    env: Mapping[str, str], secrets: Mapping[str, SecretUse], said_plain: frozenset[str]
) -> dict[str, str | dict[str, str]]:
    """Return the environment as it stands in a stored spec."""
    values: dict[str, str | dict[str, str]] = {
        name: {"plain": value} if name in said_plain else value for name, value in env.items()
    }
    return dict(sorted((values | {name: use.to_json() for name, use in secrets.items()}).items()))


def env_schema(plain: dict[str, Any]) -> dict[str, Any]:  # JSON Schema
    """Return the schema of ``env`` out of the one for plain values alone."""
    text = plain["additionalProperties"]
    secret = {
        "type": "object",
        "additionalProperties": False,
        "required": ["secret"],
        "properties": {
            "secret": {
                "description": "Name of a secret, see /secrets; its value is given to the process and shown to nobody.",
                "type": "string",
                "pattern": f"^(?:{SECRET_NAME.pattern})$",
            },
            "of": {"description": "Whose it is; the owner's, or else the queue's, when left out.", "enum": [*OWNERS]},
        },
        "examples": [{"secret": "wandb"}],
    }
    said = {
        "description": "A value that looks like a secret and is none.",
        "type": "object",
        "additionalProperties": False,
        "required": ["plain"],
        "properties": {"plain": text},
    }
    return plain | {"additionalProperties": {"anyOf": [text, secret, said]}}


def env_hidden(spec: Mapping[str, Any]) -> dict[str, Any]:  # JSON of a spec
    """Return a stored spec without its plain values, for readers who are neither its owner nor leads."""
    hidden = {name: value if _names_secret(value) else {"hidden": True} for name, value in spec.get("env", {}).items()}
    return {**spec, "env": hidden}


def secrets_named(spec: Mapping[str, Any]) -> dict[str, SecretUse]:  # JSON of a stored spec
    """Return the secrets that a stored spec names, by variable, without reading the rest of it."""
    return {
        name: SecretUse(name=value["secret"], of=value.get("of", ""))
        for name, value in spec.get("env", {}).items()
        if _names_secret(value)
    }


def _names_secret(value: object) -> bool:
    return isinstance(value, Mapping) and "secret" in value


def secret_errors(env: Mapping[str, str], said_plain: frozenset[str]) -> list[FieldError]:
    """Return an error for each plain value that looks like a secret, with the lines that would be right."""
    return [
        FieldError(
            pointer="/env" + pointer_step(name),
            code="secret",
            detail=f"{name} looks like a secret, and a plain value is kept with the job. Keep it with "
            f"'clusterweb secret set {name_for(name)}' and write {name}: {{secret: {name_for(name)}}}. "
            f"If it is none, write {name}: {{plain: ...}}.",
        )
        for name, value in env.items()
        if name not in said_plain and looks_secret(name, value)
    ]


def name_for(variable: str) -> str:
    """Return a name that fits a secret: wandb for WANDB_API_KEY."""
    return (_ENDING.sub("", variable) or variable).strip("_").lower().replace("_", "-")[:63] or "my-secret"


def looks_secret(variable: str, value: str) -> bool:
    """Return whether a value looks like a password, key or token: by known forms, its variable's name, or chance."""
    text = value.strip()
    if _TOKENS.match(text) or _PRIVATE_KEY.search(text) or _URL_PASSWORD.search(text):
        return True
    if len(text) < 6 or " " in text or "\n" in text or _HARMLESS.fullmatch(text):
        return False
    if _PLAIN_NAMES.search(variable):
        return True
    has_both = any(letter.isdigit() for letter in text) and any(letter.isalpha() for letter in text)
    if _NAMES.search(variable):
        return len(text) >= 12 and has_both and not set("/.") & set(text)
    is_mixed = has_both and text != text.lower() and text != text.upper()
    return bool(is_mixed and _LONG_TOKEN.fullmatch(text) and text.count("/") <= 2 and _bits(text) >= _BITS_OF_CHANCE)


def _bits(text: str) -> float:
    """Return the entropy of its letters, bits each."""
    return -sum(count / len(text) * math.log2(count / len(text)) for count in Counter(text).values())
