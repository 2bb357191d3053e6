"""The shadow policy: plans every round again with another configuration, and replays ended jobs every 15 minutes.

For a round, the shadow plans the same snapshot as the live round, so the difference is what it would have done *next*,
from the state that the live policy had reached.

For a score, both configurations replay, from an empty cluster, the jobs that ended since the shadow was chosen, with
their real arrivals and run times. The live side is replayed too, so that errors of the simulator affect both sides.
"""

import json
import logging
import math
import time
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path

from django.conf import settings

from scheduler.choices import build_config
from scheduler.core.model.errors import PlanInvariantError, SpecInvalid
from scheduler.core.model.plan import Plan
from scheduler.core.model.tables import Snapshot
from scheduler.core.round.plan_round import plan_round
from scheduler.live.rounds.shadow_handover import snapshot_unpack
from scheduler.models import Job, Round, Shadow, ShadowRound, ShadowScore
from scheduler.ports import Ports
from scheduler.selectors.rows import Json
from scheduler.services.cluster.settings import cluster_row
from scheduler.simulator.errors import BadInput
from scheduler.simulator.study.variants import ARM_FIELDS
from scheduler.whatif.scenarios.children import Child, base_file
from scheduler.whatif.scenarios.past_base import past_base

log = logging.getLogger(__name__)

SHOWN_MOST = 50  # jobs of each kind of difference that are kept
ROUNDS_KEPT = 2_000
SCORE_EVERY_S = 900.0
LOOK_AGAIN_S = 15.0  # while too little has ended
LONGEST = timedelta(days=7)  # that a replay goes back
LEAST_JOBS = 5
FIGURES = ("avg_jct_s", "avg_rho", "max_rho", "avg_queueing_s")
Gpus = dict[int, int]  # job number to GPUs


class ShadowPlanner:
    """Plans rounds and makes scores for the shadow. One thread calls ``tick``."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._next_s = -math.inf
        self._score: _Scoring | None = None
        self._score_next_s = -math.inf
        self._version = 0

    def tick(self) -> None:
        """Plan one round that waits, and go on with the replays."""
        shadow = Shadow.objects.filter(pk=1, since__isnull=False).first()
        if shadow is None or shadow.version != self._version:
            self.stop()
            self._version, self._score_next_s = (shadow.version if shadow else 0), -math.inf
        if shadow is None:
            ShadowRound.objects.filter(planned_at=None).delete()
            return
        now_s = self._ports.clock.mono_s()
        if now_s >= self._next_s:
            began_s = time.thread_time()
            rounds_plan(shadow, at=self._ports.clock.now())
            # Rest as long as it took, so that planning never takes more than half of a core.
            self._next_s = self._ports.clock.mono_s() + (time.thread_time() - began_s)
        self._replay(shadow, now_s)

    def _replay(self, shadow: Shadow, now_s: float) -> None:
        if self._score is None and now_s >= self._score_next_s:
            self._score = scoring_begin(shadow, at=self._ports.clock.now())
            self._score_next_s = now_s + (SCORE_EVERY_S if self._score else LOOK_AGAIN_S)
        if self._score is not None and self._score.step():
            self._score = None

    def stop(self) -> None:
        """End the replay that is running."""
        if self._score is not None:
            self._score.stop()
            self._score = None


def rounds_plan(shadow: Shadow, *, at: datetime) -> int:
    """Plan the rounds that wait, oldest first; return how many."""
    ShadowRound.objects.filter(planned_at=None).exclude(version=shadow.version).delete()
    waiting = list(ShadowRound.objects.filter(planned_at=None).order_by("number"))
    for row in waiting:
        began_s = time.monotonic()
        try:
            snapshot = snapshot_unpack(bytes(row.snapshot or b""))
            plan = plan_round(snapshot, build_config(**shadow.chosen))
            _note(row, live=_live_gpus(row.number), shadow=_gpus(snapshot, plan))
        except (PlanInvariantError, SpecInvalid) as error:
            row.error = str(error)[:300]
        row.snapshot, row.planned_at, row.took_s = None, at, time.monotonic() - began_s
        row.save()
    if waiting:
        ShadowRound.objects.filter(number__lte=waiting[-1].number - ROUNDS_KEPT).delete()
    return len(waiting)


def _gpus(snapshot: Snapshot, plan: Plan) -> Gpus:
    numbers: list[int] = snapshot.jobs.job_id.tolist()
    found: Gpus = {}
    for job, gpus in zip(plan.grants.job.tolist(), plan.grants.num_gpus.tolist(), strict=True):
        found[numbers[job]] = found.get(numbers[job], 0) + gpus
    return found


def _live_gpus(number: int) -> Gpus:
    """Return what the live round granted; equal decisions are kept once."""
    decisions = Round.objects.values_list("decisions", flat=True).get(pk=number)
    if "same_as" in decisions:
        decisions = Round.objects.values_list("decisions", flat=True).get(pk=decisions["same_as"])
    return {entry["job"]: sum(seat["gpus"] for seat in entry["seats"]) for entry in decisions.get("grants", [])}


def _note(row: ShadowRound, *, live: Gpus, shadow: Gpus) -> None:
    """Keep the jobs that run under one configuration only, and the jobs whose GPUs differ."""
    only_live = sorted(live.keys() - shadow.keys())
    only_shadow = sorted(shadow.keys() - live.keys())
    both = sorted(live.keys() & shadow.keys())
    other = [number for number in both if live[number] != shadow[number]]
    row.num_only_live, row.num_only_shadow, row.num_other_gpus = len(only_live), len(only_shadow), len(other)
    row.num_same = len(both) - len(other)
    row.differences = {
        "only_live": [[number, live[number]] for number in only_live[:SHOWN_MOST]],
        "only_shadow": [[number, shadow[number]] for number in only_shadow[:SHOWN_MOST]],
        "other_gpus": [[number, live[number], shadow[number]] for number in other[:SHOWN_MOST]],
    }


class _Scoring:
    """Two replays in processes of their own, one after the other."""

    def __init__(self, row: ShadowScore, base: Path, arms: Mapping[str, Json]) -> None:
        self._row, self._base, self._arms = row, base, dict(arms)
        self._found: dict[str, dict[str, float]] = {}
        self._child: Child | None = None

    def step(self) -> bool:
        """Go on; return whether it is over."""
        side = next((side for side in self._arms if side not in self._found), None)
        if side is None:
            self._row.live, self._row.shadow = self._found["live"], self._found["shadow"]
            self._row.save(force_insert=True)
            self.stop()
            return True
        if self._child is None:
            self._child = Child()
            self._child.begin({"base": str(self._base), "variant": self._arms[side], "seed": 1})
        if not self._child.ended:
            return False
        child, self._child = self._child, None
        child.end()
        if child.result is None:
            log.warning("shadow_not_replayed", extra={"side": side, "error": child.error})
            self.stop()
            return True
        summary = child.result["figures"]["summary"]
        self._found[side] = {name: float(summary[name]) for name in FIGURES}
        return False

    def stop(self) -> None:
        """End the process that runs, and remove what it read."""
        if self._child is not None:
            self._child.end()
            self._child = None
        self._base.unlink(missing_ok=True)


def scoring_begin(shadow: Shadow, *, at: datetime) -> _Scoring | None:
    """Return the replays to make, or None while too little has ended since the shadow was chosen."""
    assert shadow.since is not None
    since = max(shadow.since, at - LONGEST)
    ended = Job.objects.filter(submitted_at__gte=since, ended_at__isnull=False, first_started_at__isnull=False)
    if ended[:LEAST_JOBS].count() < LEAST_JOBS:
        return None
    try:
        past = past_base(since=since, until=at, at=at)
    except BadInput as error:
        log.info("shadow_has_no_past", extra={"error": str(error)})
        return None
    jobs = past.content["source"]["jobs"]
    content = {**past.content, "least_gpus": sum(past.content["servers"]["num_gpus"])}
    cluster = cluster_row()
    row = ShadowScore(version=shadow.version, at=at, since=since, num_jobs=len(jobs))
    base = base_file(settings.VAR_DIR / "simulations", f"shadow-{int(at.timestamp())}", json.dumps(content).encode())
    return _Scoring(row, base, {"live": {name: getattr(cluster, name) for name in ARM_FIELDS}, "shadow": shadow.chosen})
