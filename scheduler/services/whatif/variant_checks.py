"""Checks the variants of a scenario: policy and options, quotas, servers, load.

A missing choice is the one in force if the scenario starts from the cluster, else a default.
"""

from collections.abc import Mapping
from typing import Any

from scheduler.choices import build_config
from scheduler.core.model.errors import FieldError, SpecInvalid
from scheduler.services.cluster.settings import SECONDS, cluster_row
from scheduler.services.inputs import Problems
from scheduler.services.whatif.fields import Json, checked_number, refuse_unknown
from scheduler.services.whatif.start_checks import MOST_SERVERS
from scheduler.simulator.study.variants import ARM_FIELDS

VARIANTS = (2, 6)
LOADS = (0.05, 20.0)
OF_CLUSTER = frozenset({"live", "past"})  # kinds of start
_VARIANT_FIELDS = (*ARM_FIELDS, "quotas", "servers", "load")


def checked_variants(problems: Problems, variants: object, *, kind: str) -> list[Json]:
    """Return the checked variants; ``kind`` is that of the start."""
    low, high = VARIANTS
    if not isinstance(variants, list) or not low <= len(variants) <= high:
        problems.add("variants", "count", f"variants must be a list of {low} to {high}.")
        return []
    made = [_variant(problems, variant, at=f"variants/{index}", kind=kind) for index, variant in enumerate(variants)]
    for index, variant in enumerate(made):
        if variant in made[:index]:
            first = made.index(variant) + 1
            problems.add(f"variants/{index}", "twice", f"Variant {index + 1} is the same as variant {first}.")
    return made


def _variant(problems: Problems, variant: object, *, at: str, kind: str) -> Json:
    if not isinstance(variant, Mapping):
        problems.add(at, "type", "A variant must be a mapping with a policy.")
        return {}
    refuse_unknown(problems, variant, _VARIANT_FIELDS, at=f"{at}/")
    arm = _arm(problems, variant, at=at, kind=kind)
    made: Json = {**arm}
    more = variant.get("servers", 0)
    limits = (-MOST_SERVERS, MOST_SERVERS)
    made["servers"] = int(checked_number(problems, f"{at}/servers", more, *limits, whole=True, label="servers more"))
    made["load"] = checked_number(problems, f"{at}/load", variant.get("load", 1.0), *LOADS)
    if kind == "live" and made["load"] != 1.0:
        problems.add(f"{at}/load", "contradiction", "The jobs of the live cluster have arrived: load must be 1.")
    quotas = variant.get("quotas", {})
    if not isinstance(quotas, Mapping) or len(quotas) > 200:
        problems.add(f"{at}/quotas", "type", "quotas must map names of queues to GPUs.")
        quotas = {}
    made["quotas"] = {
        str(name): int(checked_number(problems, f"{at}/quotas/{name}", gpus, 0, 1_000_000, whole=True, label="quota"))
        for name, gpus in quotas.items()
    }
    return made


def _arm(problems: Problems, variant: Mapping[str, Any], *, at: str, kind: str) -> Json:
    """Return policy, locality, mechanism and introspection with their options.

    A missing choice is the one in force if the scenario starts from the cluster, else a default.
    """
    arm: Json = {"policy": "las", "locality": "consolidate", "mechanism": "tune", "introspection": []}
    arm["min_run_s"] = cluster_row().min_run_s  # else the settings of a variant that says nothing of it would change it
    if kind in OF_CLUSTER:
        arm = settings_in_force()
    given = {name: variant[name] for name in ARM_FIELDS if name in variant}
    arm = {name: value for name, value in arm.items() if name.removesuffix("_options") not in given} | given
    for name in ("policy_options", "locality_options", "mechanism_options", "introspection_options"):
        arm.setdefault(name, {})
    wrong = [name for name in ("policy", "locality", "mechanism") if not isinstance(arm[name], str)]
    wrong += [name for name in arm if name.endswith("_options") and not _is_options(arm[name], deep=name[0] == "i")]
    tries = arm["introspection"]
    if not (isinstance(tries, list) and all(isinstance(name, str) for name in tries)):
        wrong.append("introspection")
    arm["min_run_s"] = checked_number(
        problems, f"{at}/min_run_s", arm["min_run_s"], 0, SECONDS["min_run_s"], label="min_run_s"
    )
    for name in wrong:
        problems.add(f"{at}/{name}", "type", f"{name} has the wrong type.")
    if not wrong:
        try:
            build_config(**arm)
        except SpecInvalid as error:
            problems.errors += [
                FieldError(pointer=f"/{at}{entry.pointer}", code=entry.code, detail=entry.detail)
                for entry in error.errors
            ]
    return arm


def settings_in_force() -> Json:
    """Return the settings of the cluster now, as a variant has them."""
    cluster = cluster_row()
    return {name: getattr(cluster, name) for name in ARM_FIELDS}


def _is_options(options: object, *, deep: bool) -> bool:
    return isinstance(options, Mapping) and (not deep or all(isinstance(each, Mapping) for each in options.values()))
