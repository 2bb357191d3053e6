"""What changed with an entry of the audit list: what it is called, and its values before and after in words."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from frontend.components.devices import DeviceWord
from frontend.components.event_words.options import exact_number
from frontend.components.event_words.settings import setting_changes, setting_said
from frontend.components.formats import NBSP, counted, data_size, joined
from frontend.components.states import look
from scheduler.choices import ChoiceKind
from scheduler.selectors.accounts.rows import AuditRow
from scheduler.services.cluster.settings import CHOSEN

# What pages call a field; another is called by its name without unit.
LABELS: Mapping[str, str] = {
    "active": "May sign in",
    "admin": "Is an admin",
    "borrow": "May borrow",
    "budget": "Budget a month",
    "cpus": "CPU cores",
    "directories_most_bytes": "Kept files together at most",
    "gpu_price": "Price of a GPU-hour",
    "gpu_prices": "Prices of models",
    "gpus": "GPUs",
    "idle_action": "Then",
    "idle_after_s": "Told after",
    "isolation": "Jobs start",
    "issuer": "Identity provider",
    "keep_directories_days": "Kept after the end of a job",
    "keep_until": "Kept until",
    "max_gpus": "At most",
    "may_borrow": "May borrow what others do not use",
    "may_mix_queues": "Jobs of several queues",
    "memory": "Memory",
    "min_gpus": "GPUs at least",
    "notices": "Notices",
    "num_cpus": "CPU cores",
    "price_currency": "Currency",
    "quota_gpus": "Quota",
    "tokens_revoked": "Tokens revoked",
    "until": "Needed until",
    "user_directories_most_bytes": "Kept files of each user at most",
    "user_max_gpus": "A user holds at most",
    "user_max_queued": "A user queues at most",
}
WORDS: Mapping[str, Mapping[str, str]] = {
    "idle_action": {"": "only tell", "tell": "only tell", "suspend": "suspend", "cancel": "cancel"},
    "isolation": {
        "": "on every server",
        "files": "where other queues cannot open their files",
        "user": "where they have a user of their own",
        "full": "where they have a user of their own and open their own files alone",
    },
}
NO_LIMIT = frozenset({"max_gpus", "user_max_gpus", "user_max_queued", "directories_most_bytes"})
LISTED_MOST = 6
# Ids that only programs read.
UNSHOWN = frozenset({"request"})


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditChange:
    """One value before and after; empty where there was none."""

    what: str
    before: str
    after: str


def audit_changes(row: AuditRow, device: DeviceWord) -> list[AuditChange]:
    """Return all that changed with an entry."""
    return [
        AuditChange(what=device.said(one.what), before=device.said(one.before), after=device.said(one.after))
        for one in _changes(row)
    ]


def _changes(row: AuditRow) -> Iterator[AuditChange]:
    before, after = row["before"], row["after"]
    if row["kind"] in ("settings", "shadow"):
        yield from _settings(row["kind"], before, after)
        return
    if row["kind"] == "server_size" and isinstance(size := row["data"].get("size"), dict):
        before, after = None, size
    if not (isinstance(before, dict) or isinstance(after, dict)):
        if before is not None or after is not None:
            yield AuditChange(what="Role", before=said("role", before), after=said("role", after))
        return
    old, new = ({} if not isinstance(side, dict) else side for side in (before, after))
    for name in [*new, *(name for name in old if name not in new)]:
        if name not in UNSHOWN and (old.get(name) or None) != (new.get(name) or None):
            sides = [said(name, side.get(name)) if name in side else "" for side in (old, new)]
            yield AuditChange(what=_label(name), before=sides[0], after=sides[1])


def _settings(kind: str, before: object, after: object) -> Iterator[AuditChange]:
    old, new = (side if isinstance(side, dict) else {} for side in (before, after))
    if kind == "shadow":
        kinds: tuple[ChoiceKind, ...] = ("policy", "locality", "mechanism", "introspection")
        nothing: dict[str, Any] = {f"{name}_options": {} for name in kinds} | dict.fromkeys(CHOSEN)
        nothing["introspection"] = []
        old, new = (nothing | side for side in (old, new))
    if kind == "settings" and [*new] == ["paused"]:
        return  # the sentence says all of it
    for one in setting_changes(old, new):
        yield AuditChange(what=f"{one.what[:1].upper()}{one.what[1:]}", before=one.before, after=one.after)


def _label(name: str) -> str:
    if name in LABELS:
        return LABELS[name]
    for unit in ("_bytes", "_gpus", "_s", "_days"):
        name = name.removesuffix(unit)
    words = name.replace("_", " ").strip()
    return words[:1].upper() + words[1:]


def said(name: str, value: object) -> str:
    """Return a value of a field in words; never JSON."""
    if isinstance(value, str) or value is None:
        text = value or ""
        if name in WORDS:
            return WORDS[name].get(text, text)
        if value is None and name in NO_LIMIT:
            return "no limit"
        return look(text).word if name == "state" and text else text.split("T")[0] if name == "keep_until" else text
    if isinstance(value, bool):
        return setting_said(name, value)
    if isinstance(value, int | float):
        return _number(name, value)
    if isinstance(value, list):
        return _listed([said("", one) for one in value])
    if isinstance(value, dict):
        return _listed([f"{key}{NBSP}{said('', one)}" for key, one in value.items()])
    return f"another{NBSP}value"


def _number(name: str, value: float) -> str:
    if name.endswith("_gpus"):
        return f"{exact_number(value)}{NBSP}{'GPU' if value == 1 else 'GPUs'}"
    if name.endswith("_bytes") or name == "memory":
        return data_size(value)
    if name.endswith("_days"):
        return counted(int(value), "day")
    return setting_said(name, value)


def _listed(words: list[str]) -> str:
    if len(words) > LISTED_MOST:
        words = [*words[:LISTED_MOST], f"{len(words) - LISTED_MOST} more"]
    return joined(words) or "none"
