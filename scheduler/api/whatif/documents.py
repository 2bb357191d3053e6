"""Shapes of what-if scenarios in the OpenAPI document, and of the bodies that ask for them."""

from drf_spectacular.utils import OpenApiExample, extend_schema_field
from rest_framework import serializers

from scheduler.api.http.bodies import Body
from scheduler.api.http.documents import Facts, Shape, moment, real, text, whole, word, yes
from scheduler.api.http.pagination import PageFields
from scheduler.models.scenario import RunState, ScenarioState


@extend_schema_field({"type": "object", "required": ["kind"], "properties": {"kind": {"type": "string"}}})
class StartField(serializers.JSONField):
    """Where it starts."""


@extend_schema_field({"type": "array", "items": {"type": "object"}, "minItems": 2, "maxItems": 6})
class VariantsField(serializers.JSONField):
    """What is compared."""


class ScenarioBody(Body):
    """A question."""

    name = serializers.CharField(max_length=120, help_text="For the list and the page.")
    start = StartField(
        help_text="`{kind: live}`, `{kind: past, since, until}`, `{kind: trace, file, format?, window?, num_jobs?, "
        "cluster?, round_s?}` or `{kind: generator, text, cluster?, round_s?}`. `cluster` is "
        "`{servers, gpus, cpus, memory_gb}`; without it the servers are those of this cluster."
    )
    variants = VariantsField(
        help_text="Two to six: `{policy, policy_options, locality, locality_options, mechanism, mechanism_options, "
        "introspection, introspection_options, quotas, servers, load}`, all optional. The first is the baseline."
    )
    seeds = serializers.ListField(
        child=serializers.IntegerField(), required=False, help_text="One run of each variant for each seed; [0]."
    )


SCENARIO_EXAMPLES = [
    OpenApiExample(
        "Two policies on a generated week",
        {
            "name": "Which policy?",
            "start": {
                "kind": "generator",
                "text": "philly?jobs=1000&load=0.9",
                "cluster": {"servers": 16, "gpus": 8, "cpus": 24, "memory_gb": 500},
            },
            "variants": [{"policy": "las"}, {"policy": "srtf"}],
            "seeds": [1, 2, 3],
        },
        request_only=True,
    )
]


class RunRow(Shape):
    """How far one run is."""

    variant = whole("Place in the list of variants, from 0.")
    seed = whole()
    state = word(list(RunState.values))
    error = text("Why it failed.")
    frac = real("Share of its jobs that are done, 0 to 1.")
    done_jobs = whole()
    num_jobs = whole("0 until its jobs are read.")
    attempts = whole("Times that a worker took it.")
    cpu_s = real("CPU time it took, once completed.")


class ProgressDocument(Shape):
    """How far a scenario is."""

    id = text()
    state = word(list(ScenarioState.values))
    error = text("Why it failed.")
    frac = real("Share of all its work that is done, 0 to 1.")
    runs_done = whole()
    num_runs = whole()
    silent = yes("Whether no worker has said for a while that it works on it.")
    elapsed_s = real("Since it was asked.")
    runs = RunRow(many=True)


class ScenarioRow(Shape):
    """A scenario without what it found."""

    id = text()
    name = text()
    owner = text()
    state = word(list(ScenarioState.values))
    error = text()
    created_at = moment(null=False)
    ended_at = moment()
    start = Facts()
    variants = serializers.ListField(child=Facts(), help_text="As asked, each with a `name`.")
    seeds = serializers.ListField(child=serializers.IntegerField())


class MetricCell(Shape):
    """One metric of one variant."""

    mean = real("Over the seeds; null until a run has ended.", null=True)
    half_width = real("Half the width of the 95 % interval of the mean; 0 with one seed.", null=True)
    seeds = whole("How many have ended.")


class MetricRow(Shape):
    """One metric."""

    key = text("Times are in seconds, shares from 0 to 1.")
    kind = word(["time", "share", "number", "count"])
    best = word(["min", "max"], "What is better; empty where neither is.", blank=True)
    variants = MetricCell(many=True, help_text="By variant.")
    winner = whole("Variant with the best mean.", null=True)
    sure = serializers.BooleanField(
        allow_null=True, help_text="Whether it beats every other one seed by seed beyond chance; null with one seed."
    )


class FidelityRow(Shape):
    """One figure of the past window: as it happened and as the simulator replays it."""

    key = text()
    kind = word(["time", "share"])
    happened = real()
    replayed = real()
    error_frac = real("Their difference over what happened.", null=True)


class ScenarioDocument(ScenarioRow):
    """A scenario with its progress and what it found so far."""

    about = text("Its starting point in words.")
    warnings = serializers.ListField(child=serializers.CharField(), help_text="What was left out or changed.")
    progress = ProgressDocument()
    metrics = MetricRow(many=True)
    fidelity = FidelityRow(many=True, allow_null=True)


class ScenarioPage(PageFields):
    """A page of scenarios."""

    results = ScenarioRow(many=True)


class RunDocument(RunRow):
    """One run with its figures and curves."""

    summary = Facts(allow_null=True)
    figures = Facts(allow_null=True)
    costs = Facts(help_text="CPU seconds of loading, simulating and drawing.")


class TraceFileRow(Shape):
    """An uploaded trace."""

    id = text()
    name = text()
    owner = text()
    bytes = whole()
    created_at = moment(null=False)
    scenarios = whole("How many start from it; 0 before it may be deleted.")


class TraceFilePage(PageFields):
    """The uploaded traces that you may use."""

    results = TraceFileRow(many=True)
