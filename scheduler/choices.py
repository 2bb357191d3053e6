"""The policies, localities, mechanisms and introspections to choose from, and their configuration.

Decides which names and options form a valid ``SchedulerConfig``; used by settings, what-if and the command line.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict, TypeVar

from scheduler.core.model.errors import FieldError, SpecInvalid
from scheduler.core.packing.locality import Locality
from scheduler.core.round.capabilities import MayBackfill
from scheduler.core.round.config import Introspection, Mechanism, Policy, SchedulerConfig, SharePolicy
from scheduler.introspection import INTROSPECTIONS
from scheduler.introspection.growth import Growth
from scheduler.introspection.slicing import Slicing
from scheduler.mechanisms import MECHANISMS
from scheduler.options import Options, Parameter, checked, parameters
from scheduler.placement import LOCALITIES
from scheduler.policies import POLICIES

Made = TypeVar("Made")
ChoiceKind = Literal["policy", "locality", "mechanism", "introspection"]


class Choice(TypedDict):
    """A policy, locality or mechanism."""

    name: str
    help: str
    parameters: list[Parameter]


class Choices(TypedDict):
    """Everything an admin can choose from."""

    policies: list[Choice]
    localities: list[Choice]
    mechanisms: list[Choice]
    introspections: list[Choice]


def choices() -> Choices:
    """Return every policy, locality, mechanism and introspection with its options, ready for JSON and forms."""
    return {
        "policies": [_choice(kind) for kind in POLICIES.values()],
        "localities": [_choice(kind) for kind in LOCALITIES.values()],
        "mechanisms": [_choice(kind) for kind in MECHANISMS.values()],
        "introspections": [_choice(kind) for kind in INTROSPECTIONS.values()],
    }


def _choice(kind: type[Any]) -> Choice:
    return {"name": kind.name, "help": _help(kind), "parameters": parameters(kind)}


def _help(kind: type[Any]) -> str:
    return (kind.__doc__ or "").strip().splitlines()[0]


def build_config(
    *,
    policy: str,
    policy_options: Options | None = None,
    locality: str = "consolidate",
    locality_options: Options | None = None,
    mechanism: str = "tune",
    mechanism_options: Options | None = None,
    introspection: Sequence[str] = (),
    introspection_options: Mapping[str, Options] | None = None,
    preempt: bool = True,
    reclaim_after_s: float = 0.0,
    min_run_s: float = 0.0,
) -> SchedulerConfig:
    """Return the configuration with these names and options; options that are left out keep their defaults.

    Args:
        policy, locality, mechanism: Names in their registries.
        policy_options, locality_options, mechanism_options: Options of each.
        introspection: Names, in the order in which they act.
        introspection_options: Options by name.
        preempt, reclaim_after_s, min_run_s: As in SchedulerConfig.

    Raises:
        SpecInvalid: With one entry per unknown name, unknown option, bad value or combination without sense; pointers
            are ``/policy``, ``/policy_options/<name>``, the same for locality and mechanism, ``/introspection/<index>``
            and ``/introspection_options/<name>/<option>``.
    """
    errors: list[FieldError] = []
    made_policy: Policy | SharePolicy | None = _make("policy", POLICIES, policy, policy_options or {}, errors)
    made_locality: Locality | None = _make("locality", LOCALITIES, locality, locality_options or {}, errors)
    made_mechanism: Mechanism | None = _make("mechanism", MECHANISMS, mechanism, mechanism_options or {}, errors)
    tries = _introspections(introspection, introspection_options or {}, errors)
    if errors or made_policy is None or made_locality is None or made_mechanism is None:
        raise SpecInvalid(errors)
    config = SchedulerConfig(
        policy=made_policy,
        locality=made_locality,
        mechanism=made_mechanism,
        introspection=tries,
        preempt=preempt,
        reclaim_after_s=reclaim_after_s,
        min_run_s=min_run_s,
    )
    errors = _contradictions(config)
    if errors:
        raise SpecInvalid(errors)
    return config


def _introspections(
    names: Sequence[str], options: Mapping[str, Options], errors: list[FieldError]
) -> tuple[Introspection, ...]:
    made: list[Introspection] = []
    for index, name in enumerate(names):
        if name in names[:index]:
            detail = f"{name} is named twice."
            errors.append(FieldError(pointer=f"/introspection/{index}", code="twice", detail=detail))
            continue
        chosen = options.get(name, {})
        one = _make("introspection", INTROSPECTIONS, name, chosen, errors, at=f"/{index}", options_at=f"/{name}")
        if one is not None:
            made.append(one)
    for name in options:
        if name not in names:
            detail = f"Options are given for {name}, which is not chosen."
            errors.append(FieldError(pointer=f"/introspection_options/{name}", code="unknown", detail=detail))
    return tuple(made)


def _make(
    kind: ChoiceKind,
    registry: Mapping[str, type[Made]],
    name: str,
    options: Options,
    errors: list[FieldError],
    *,
    at: str = "",
    options_at: str = "",
) -> Made | None:
    if name not in registry:
        there_is = f"There is {', '.join(registry)}." if registry else "There is none."
        errors.append(
            FieldError(pointer=f"/{kind}{at}", code="unknown", detail=f"There is no {kind} {name}. {there_is}")
        )
        return None
    known = {parameter["name"]: parameter for parameter in parameters(registry[name])}
    values = {}
    found = len(errors)
    for option, value in options.items():
        pointer = f"/{kind}_options{options_at}/{option}"
        if option not in known:
            there_is = f"There is {', '.join(known)}." if known else "It has none."
            detail = f"{name} has no option {option}. {there_is}"
            errors.append(FieldError(pointer=pointer, code="unknown", detail=detail))
            continue
        try:
            values[option] = checked(known[option], value)
        except ValueError as error:
            code, detail = error.args
            errors.append(FieldError(pointer=pointer, code=code, detail=detail))
    return registry[name](**values) if len(errors) == found else None


def _contradictions(config: SchedulerConfig) -> list[FieldError]:
    """Return an error for each pair of choices that contradict each other.

    All other combinations work: a share policy sets how many GPUs an elastic job has, and later steps use that number.
    """
    policy = config.policy
    found: list[FieldError] = []
    for index, one in enumerate(config.introspection):
        details = []
        if isinstance(policy, SharePolicy) and isinstance(one, Growth | Slicing):
            what = "how many GPUs each job has" if isinstance(one, Growth) else "which jobs take turns"
            details.append(f"{one.name} would change {what}, and {policy.name} chooses that already: take one of them.")
        elif isinstance(one, Slicing) and isinstance(policy, MayBackfill) and not policy.backfill:
            details.append(
                f"{one.name} lets all jobs take turns, and {policy.name} without backfill keeps them in line."
            )
        if isinstance(one, Slicing) and not config.preempt:
            details.append(f"{one.name} stops jobs to let others have their turn, and preempt forbids to stop jobs.")
        if isinstance(one, Slicing) and config.min_run_s > one.quantum_s:
            details.append(f"A turn of {one.quantum_s:g} s is shorter than min_run_s, {config.min_run_s:g} s.")
        found += [FieldError(pointer=f"/introspection/{index}", code="contradiction", detail=text) for text in details]
    return found
