"""The form that builds a scenario: its fields, and the scenario that a sent form asks for.

Names of fields say where they belong: ``kind``, ``text``, ``v0.policy``, ``v0.policy.las.promote_after``. The form
works without scripts: adding and removing a variant are buttons that send it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from frontend.components.option_fields import OptionField, option_fields, options_sent
from scheduler.choices import ChoiceKind, choices
from scheduler.core.model.errors import FieldError
from scheduler.selectors.rows import Json
from scheduler.services.whatif.start_checks import DEFAULT_CLUSTER, DEFAULT_ROUND_S
from scheduler.services.whatif.variant_checks import VARIANTS
from scheduler.simulator.workloads import GENERATORS, PREFIX

Plural = Literal["policies", "localities", "mechanisms", "introspections"]
SECTIONS: tuple[tuple[ChoiceKind, str, Plural], ...] = (
    ("policy", "Policy", "policies"),
    ("locality", "Locality", "localities"),
    ("mechanism", "Mechanism", "mechanisms"),
)
INTROSPECTION: tuple[ChoiceKind, str, Plural] = ("introspection", "Introspection", "introspections")
GENERATED = {"generator": "philly", "days": "7", "jobs": "", "load_of": "0.9", "queues": "4"}


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantChoice:
    """One policy, locality, mechanism or introspection of one variant."""

    name: str
    help: str
    chosen: bool
    fields: list[OptionField]


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantSection:
    """All choices of one kind; ``many`` may be chosen at once."""

    name: str
    label: str
    choices: list[VariantChoice]
    many: bool
    error: str
    changed: int

    @property
    def is_wrong(self) -> bool:
        """Return whether something in it has to be corrected."""
        return bool(self.error) or any(field.error for choice in self.choices for field in choice.fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantView:
    """One variant."""

    number: int
    prefix: str
    sections: list[VariantSection]
    least_run: str
    servers: str
    load: str
    quotas: str
    errors: Mapping[str, str]
    is_baseline: bool

    @property
    def other_differs(self) -> bool:
        """Return whether servers, load or quotas are not those of the cluster, or something there is wrong."""
        wrong = {"min_run_s", "servers", "load", "quotas"} & self.errors.keys()
        return bool(wrong) or (self.servers, self.load, self.quotas) != ("0", "1", "")


def body_from(post: Mapping[str, str]) -> Json:
    """Return the scenario that a sent form asks for; text that is no number stays text, which the service refuses."""
    return {
        "name": post.get("name", "").strip(),
        "start": _start(post),
        "variants": [_variant(post, f"v{index}") for index in range(num_variants(post))],
        "seeds": [_whole(text) for text in post.get("seeds", "").replace(",", " ").split()],
    }


def num_variants(post: Mapping[str, str]) -> int:
    """Return how many variants a form holds."""
    text = post.get("variants", "2")
    return min(VARIANTS[1], max(1, int(text))) if text.isdigit() and len(text) < 3 else VARIANTS[0]


def _start(post: Mapping[str, str]) -> Json:
    kind = post.get("kind", "")
    if kind == "past":
        return {"kind": kind, "since": post.get("since", ""), "until": post.get("until", "")}
    if kind == "live":
        return {"kind": kind}
    start: Json = {"kind": kind, "cluster": None, "round_s": _number(post.get("round_s", ""))}
    if post.get("cluster") == "own":
        start["cluster"] = {name: _number(post.get(name, "")) for name in DEFAULT_CLUSTER}
    if post.get("cluster") == "drained":
        start["drained"] = True
    if kind == "trace":
        start["file"] = post.get("file", "")
        start |= {"window": post["window"].strip()} if post.get("window", "").strip() else {}
        start |= {"num_jobs": _whole(post["num_jobs"])} if post.get("num_jobs", "").strip() else {}
    else:
        start["text"] = _generator(post)
    return start


def _generator(post: Mapping[str, str]) -> str:
    name = post.get("generator", "")
    options = [("jobs", post.get("jobs", "")), ("load", post.get("load_of", ""))]
    if name == "philly":
        days = "" if post.get("jobs", "").strip() else post.get("days", "")
        options += [("days", days), ("queues", post.get("queues", ""))]
    if name == "search":
        options = [("searches", post.get("jobs", "")), ("load", post.get("load_of", ""))]
    return f"{PREFIX}{name}?" + "&".join(f"{key}={value.strip()}" for key, value in options if value.strip())


def _variant(post: Mapping[str, str], prefix: str) -> Json:
    every = choices()
    variant: Json = {}
    for kind, _, plural in SECTIONS:
        name = post.get(f"{prefix}.{kind}", "")
        variant[kind] = name
        chosen = next((choice for choice in every[plural] if choice["name"] == name), None)
        variant[f"{kind}_options"] = options_sent(chosen, post, f"{prefix}.{kind}") if chosen else {}
    tries = [choice for choice in every["introspections"] if f"{prefix}.introspection.{choice['name']}" in post]
    variant["introspection"] = [choice["name"] for choice in tries]
    options = {choice["name"]: options_sent(choice, post, f"{prefix}.introspection") for choice in tries}
    variant["introspection_options"] = {name: sent for name, sent in options.items() if sent}
    if f"{prefix}.min_run_s" in post:
        variant["min_run_s"] = _number(post[f"{prefix}.min_run_s"].strip() or "0")
    variant["servers"] = _whole(post.get(f"{prefix}.servers", "") or "0")
    variant["load"] = _number(post.get(f"{prefix}.load", "") or "1")
    variant["quotas"] = _quotas(post.get(f"{prefix}.quotas", ""))
    return variant


def _quotas(text: str) -> Json:
    """Return ``vision=8, nlp=4`` as numbers by name."""
    pairs = [part.partition("=") for part in text.replace(";", ",").split(",") if part.strip()]
    return {name.strip(): _whole(value) for name, _, value in pairs}


def _whole(text: str) -> int | str:
    text = text.strip().replace("\u2212", "-").removeprefix("+")
    return int(text) if text.removeprefix("-").isdigit() and len(text) < 12 else text


def _number(text: str) -> float | str:
    try:
        return float(text.strip())
    except ValueError:
        return text


def fields_of(body: Json) -> dict[str, str]:
    """Return a scenario as the plain fields of the form; variants are shown by ``variant_views``."""
    start = body["start"]
    fields = {
        "name": body["name"],
        "kind": start["kind"],
        "since": start.get("since", ""),
        "until": start.get("until", ""),
        "file": start.get("file", ""),
        "window": start.get("window", ""),
        "num_jobs": str(start.get("num_jobs", "")),
        "round_s": f"{start.get('round_s', DEFAULT_ROUND_S):g}" if _is_number(start.get("round_s", 300.0)) else "",
        "cluster": "own" if start.get("cluster") else "drained" if start.get("drained") else "this",
        "seeds": ", ".join(str(seed) for seed in body["seeds"]),
        **{name: f"{value:g}" if _is_number(value) else str(value) for name, value in
           (start.get("cluster") or DEFAULT_CLUSTER).items()},
        **GENERATED,
    }  # fmt: skip
    name, _, rest = start.get("text", "").removeprefix(PREFIX).partition("?")
    if name in GENERATORS:
        options = dict(part.partition("=")[::2] for part in rest.split("&") if part)
        fields |= {
            "generator": name,
            "days": options.get("days", ""),
            "jobs": options.get("jobs", options.get("searches", "")),
            "load_of": options.get("load", ""),
            "queues": options.get("queues", ""),
        }
    return fields


def _is_number(value: object) -> bool:
    return isinstance(value, int | float)


def variant_views(variants: Sequence[Json], errors: Sequence[FieldError]) -> list[VariantView]:
    """Return the variants of a form, each with its problems."""
    return [_variant_view(index, variant, errors) for index, variant in enumerate(variants)]


def _variant_view(index: int, variant: Json, errors: Sequence[FieldError]) -> VariantView:
    at = f"/variants/{index}/"
    own = {entry.pointer.removeprefix(at): entry.detail for entry in errors if entry.pointer.startswith(at)}
    every = choices()
    prefix = f"v{index}"
    sections = []
    for kind, label, plural in (*SECTIONS, INTROSPECTION):
        many = kind == "introspection"
        chosen = variant.get(kind, [] if many else "")
        views = []
        for choice in every[plural]:
            is_chosen = choice["name"] in chosen if many else choice["name"] == chosen
            options = variant.get(f"{kind}_options", {})
            stored = (options.get(choice["name"], {}) if many else options) if is_chosen else {}
            deep = f"{kind}_options/{choice['name']}/" if many else f"{kind}_options/"
            wrong = {name.removeprefix(deep).split("/")[0]: text for name, text in own.items() if name.startswith(deep)}
            fields = option_fields(choice, f"{prefix}.{kind}", stored=stored, errors=wrong if is_chosen else {})
            views.append(VariantChoice(name=choice["name"], help=choice["help"], chosen=is_chosen, fields=fields))
        error = next((text for name, text in own.items() if name == kind or name.startswith(f"{kind}/")), "")
        changed = len(variant.get(f"{kind}_options", {}))
        sections.append(VariantSection(name=kind, label=label, choices=views, many=many, error=error, changed=changed))
    quotas = variant.get("quotas", {})
    return VariantView(
        number=index + 1,
        prefix=prefix,
        sections=sections,
        least_run=f"{variant['min_run_s']:g}"
        if _is_number(variant.get("min_run_s", ""))
        else str(variant.get("min_run_s", "0")),
        servers=str(variant.get("servers", 0)),
        load=f"{variant['load']:g}" if _is_number(variant.get("load", "")) else str(variant.get("load", "1")),
        quotas=", ".join(f"{name}={gpus}" for name, gpus in quotas.items()),
        errors=own,
        is_baseline=index == 0,
    )
