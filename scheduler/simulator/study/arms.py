"""What is simulated side by side: an arm is one way to schedule, and a run is an arm with one seed."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scheduler.choices import Choice, build_config, choices
from scheduler.core.model.errors import SpecInvalid
from scheduler.core.round.config import SchedulerConfig
from scheduler.simulator.errors import BadInput

# Values as they stand in JSON, checked by build_config.
Options = Mapping[str, Any]

_ARM = re.compile(r"(?P<policy>[\w-]+)(:(?P<locality>[\w-]+))?(?P<rest>(\+[\w-]+)*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One way to schedule.

    Attributes:
        policy, locality, mechanism: Names in their registries.
        introspection: Names in theirs, in the order in which they act.
        policy_options, locality_options, mechanism_options: What differs from the defaults.
        introspection_options: The same, by name of the introspection.
        min_run_s: As in SchedulerConfig.
    """

    policy: str
    locality: str
    mechanism: str
    introspection: tuple[str, ...] = ()
    policy_options: Options = field(default_factory=dict)
    locality_options: Options = field(default_factory=dict)
    mechanism_options: Options = field(default_factory=dict)
    introspection_options: Mapping[str, Options] = field(default_factory=dict)
    min_run_s: float = 0.0

    @property
    def name(self) -> str:
        """Return the arm as ``--compare`` takes it, without options: ``srtf:consolidate+tune``."""
        return "+".join((f"{self.policy}:{self.locality}", self.mechanism, *self.introspection))

    def config(self) -> SchedulerConfig:
        """Return how its rounds decide.

        Raises:
            BadInput: If a name or an option is unknown, or a value out of range.
        """
        known = choices()
        try:
            return build_config(
                policy=self.policy,
                policy_options=_with_lists(known["policies"], self.policy, self.policy_options),
                locality=self.locality,
                locality_options=_with_lists(known["localities"], self.locality, self.locality_options),
                mechanism=self.mechanism,
                mechanism_options=_with_lists(known["mechanisms"], self.mechanism, self.mechanism_options),
                introspection=self.introspection,
                introspection_options=self.introspection_options,
                min_run_s=self.min_run_s,
            )
        except SpecInvalid as error:
            raise BadInput(f"{self.name}: {' '.join(entry.detail for entry in error.errors)}") from None


def _with_lists(known: Sequence[Choice], name: str, options: Options) -> Options:
    """Return the options with a list where one is wanted and a single number was given."""
    lists = {
        option["name"]
        for choice in known
        if choice["name"] == name
        for option in choice["parameters"]
        if option["type"] == "numbers"
    }
    return {
        key: [value] if key in lists and isinstance(value, int | float) else value for key, value in options.items()
    }


def short_names(arms: Sequence[Arm]) -> list[str]:
    """Return names for people: without the localities, mechanisms and introspections that all arms share."""
    parts = [(arm.policy, arm.locality, arm.mechanism, "+".join(arm.introspection)) for arm in arms]
    differing = [place for place in range(4) if place == 0 or len({part[place] for part in parts}) > 1]
    kept = range(4) if len(parts) == 1 else differing
    return [" + ".join(part[place] for place in kept if part[place]) for part in parts]


def parse_arms(text: str, base: Arm) -> list[Arm]:
    """Return the arms of ``--compare``: ``policy[:locality][+mechanism][+introspection]...``, split by commas.

    What an arm leaves out it takes from ``base``; options of ``base`` hold for the arms that use the same name.

    Raises:
        BadInput: If one cannot be read, or two are the same.
    """
    mechanisms = {choice["name"] for choice in choices()["mechanisms"]}
    arms = [_parse(part.strip(), base, mechanisms) for part in text.split(",") if part.strip()]
    if not arms:
        raise BadInput("--compare names no arm. One is `policy[:locality][+mechanism]`, such as `srtf+tune`.")
    for arm in arms:
        if arms.count(arm) > 1:
            raise BadInput(f"--compare names {arm.name} twice.")
    return arms


def _parse(text: str, base: Arm, mechanisms: set[str]) -> Arm:
    match = _ARM.fullmatch(text)
    if not match:
        raise BadInput(
            f"--compare: {text!r} is not an arm. One is `policy[:locality][+mechanism]`, such as `srtf+tune`."
        )
    rest = [name for name in match["rest"].split("+") if name]
    mechanism = base.mechanism
    if rest and (rest[0] in mechanisms or len(rest) == 1):
        mechanism = rest.pop(0)
    policy, locality = match["policy"], match["locality"] or base.locality
    introspection = tuple(rest) or base.introspection
    return Arm(
        policy=policy,
        locality=locality,
        mechanism=mechanism,
        introspection=introspection,
        policy_options=base.policy_options if policy == base.policy else {},
        locality_options=base.locality_options if locality == base.locality else {},
        mechanism_options=base.mechanism_options if mechanism == base.mechanism else {},
        introspection_options={
            name: options for name, options in base.introspection_options.items() if name in introspection
        },
        min_run_s=base.min_run_s,
    )


def parse_options(pairs: Sequence[str], *, flag: str) -> dict[str, Any]:
    """Return options given as ``name=value``; values are JSON where they can be, else text.

    ``queue_limits_gpu_s=3600,36000`` is a list of numbers, ``promote_after=8`` a number, ``empty=null`` never.

    Raises:
        BadInput: If a pair has no ``=``.
    """
    options: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise BadInput(f"{flag} {pair!r} must be name=value.")
        options[name.strip()] = _value(value.strip())
    return options


def parse_named_options(pairs: Sequence[str], *, flag: str) -> dict[str, dict[str, Any]]:
    """Return options given as ``choice.name=value``, by choice.

    Raises:
        BadInput: If a pair has no ``=`` or names no choice.
    """
    options: dict[str, dict[str, Any]] = {}
    for pair in pairs:
        choice, dot, rest = pair.partition(".")
        if not dot or not choice.strip() or "=" in choice:
            raise BadInput(f"{flag} {pair!r} must be choice.name=value, such as slicing.quantum_s=30.")
        options.setdefault(choice.strip(), {}).update(parse_options([rest], flag=flag))
    return options


def _value(text: str) -> Any:
    for candidate in (text, f"[{text}]" if "," in text else text):
        try:
            return json.loads(candidate)
        except json.JSONDecodeError:
            continue
    return text
