"""What-if scenarios for tests: rows as the services leave them, bodies as callers send them."""

from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User

from scheduler.models import Scenario, ScenarioRun, TraceFile
from scheduler.models.scenario import SCENARIO_OPEN, ScenarioState
from scheduler.selectors.whatif import trace_file_path
from scheduler.services.whatif.checks import scenario_checked
from scheduler.services.whatif.trace_checks import trace_checked
from tests.support.rows.factories import AT, ulid_make

TRACE = b"arrival_s,run_s,num_gpus\n0,100,1\n10,200,2\n20,50,4\n"
SMALL = {"servers": 2, "gpus": 4, "cpus": 16, "memory_gb": 100}


def scenario_body(**changes: Any) -> dict[str, Any]:
    """Return a valid scenario as JSON: two policies on 40 generated jobs."""
    start = {"kind": "generator", "text": "philly?jobs=40&load=0.9", "cluster": SMALL}
    return {"name": "Which policy?", "start": start, "variants": [{"policy": "las"}, {"policy": "srtf"}], **changes}


def scenario_make(
    owner: User, *, state: ScenarioState = ScenarioState.QUEUED, of_cluster: bool = False, **body: Any
) -> Scenario:
    """Return a scenario with its runs."""
    asked = scenario_checked(scenario_body(seeds=[1], **body), actor=owner)
    scenario = Scenario.objects.create(
        id=ulid_make(),
        name=asked.name,
        owner=owner,
        created_at=AT,
        start=asked.start,
        of_cluster=of_cluster,
        variants=asked.variants,
        seeds=asked.seeds,
        state=state,
        ended_at=None if state in SCENARIO_OPEN else AT,
    )
    ScenarioRun.objects.bulk_create(
        ScenarioRun(scenario=scenario, variant=variant, seed=seed)
        for seed in asked.seeds
        for variant in range(len(asked.variants))
    )
    return scenario


def trace_file_make(owner: User, content: bytes = TRACE) -> TraceFile:
    """Return an uploaded trace with unchecked rows."""
    file = TraceFile.objects.create(
        id=ulid_make(), owner=owner, name="small.csv", num_bytes=len(content), created_at=AT
    )
    path = trace_file_path(file)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return file


def trace_read_here(path: Path, *, name: str) -> None:
    """Check an uploaded trace without its process, which test_trace_process.py has."""
    trace_checked(path, name=name, limits=settings.TRACE_LIMITS)
