"""Documents of what-if scenarios in the OpenAPI document. Only ``ScenarioBody`` runs in a request."""

from drf_spectacular.utils import OpenApiExample, extend_schema_field
from rest_framework import serializers

from scheduler.api.http.bodies import Body
from scheduler.api.http.documents import document_of, page_of
from scheduler.selectors.rows import (
    ScenarioDetail,
    ScenarioProgress,
    ScenarioRow,
    ScenarioRunDetail,
    ScenarioRunRow,
    TraceFileRow,
)


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
        "cluster?, drained?, round_s?}` or `{kind: generator, text, cluster?, drained?, round_s?}`. `cluster` is "
        "`{servers, gpus, cpus, memory_gb}`; without it the servers are those of this cluster that are up, with "
        "`drained: true` the drained ones too."
    )
    variants = VariantsField(
        help_text="Two to six: `{policy, policy_options, locality, locality_options, mechanism, mechanism_options, "
        "introspection, introspection_options, min_run_s, quotas, servers, load}`, all optional. The first is the "
        "baseline."
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
                "text": "philly?days=7&load=0.9",
                "cluster": {"servers": 16, "gpus": 8, "cpus": 24, "memory_gb": 500},
            },
            "variants": [{"policy": "las"}, {"policy": "srtf"}],
            "seeds": [1, 2, 3],
        },
        request_only=True,
    )
]


RunRow = document_of(ScenarioRunRow, "RunRow")
RunDocument = document_of(ScenarioRunDetail, "RunDocument")
ProgressDocument = document_of(ScenarioProgress, "ProgressDocument", runs=RunRow)
ScenarioPage = page_of(document_of(ScenarioRow), "ScenarioPage", "A page of scenarios.")
ScenarioDocument = document_of(ScenarioDetail, "ScenarioDocument", progress=ProgressDocument)
TraceFileDocument = document_of(TraceFileRow)
TraceFilePage = page_of(TraceFileDocument, "TraceFilePage", "The uploaded traces that you may use.")
