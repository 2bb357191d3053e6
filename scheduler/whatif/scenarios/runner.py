"""Makes the runs of what-if scenarios: takes them from the database, runs them in processes, stores the results.

The database is the queue. A worker owns a run as long as it renews the run's heartbeat. When the heartbeat stops,
because the worker was killed or its machine was lost, any worker puts the run back, at most MOST_ATTEMPTS times. So
nothing hangs and no message can be lost. One thread calls ``tick``.
"""

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F

from scheduler.models import Scenario, ScenarioRun
from scheduler.models.scenario import AS_IT_WAS, RUN_OPEN, SCENARIO_OPEN, RunState, ScenarioState
from scheduler.ports import Ports
from scheduler.selectors.whatif import scenario_progress
from scheduler.simulator.errors import BadInput
from scheduler.whatif.scenarios.bases import base_read, folder, packed, unpacked
from scheduler.whatif.scenarios.children import Child, base_file
from scheduler.whatif.scenarios.past_base import fidelity_rows

log = logging.getLogger(__name__)

# Progress is written about four times a second, so that pages get news every half second even when one look is slow.
BEAT_S = 0.2
LOST_AFTER = timedelta(seconds=15)
MOST_ATTEMPTS = 3
# Processes that have loaded their code wait so long for another run.
KEEP_S = 60.0
ERROR_CHARS = 500


@dataclass(slots=True)
class _OwnRun:
    """A run that this worker makes; ``told_s`` is when its progress was last written."""

    run: ScenarioRun
    child: Child
    told_s: float


class Runner:
    """Makes runs side by side.

    Attributes:
        name: Name of the worker, unique among all workers.
    """

    def __init__(self, ports: Ports, *, name: str, slots: int) -> None:
        """Prepare to make at most ``slots`` runs at once."""
        self.name = name
        self._ports, self._slots = ports, slots
        self._own: dict[int, _OwnRun] = {}
        self._spare: list[Child] = []
        self._spare_since_s = 0.0

    @property
    def is_idle(self) -> bool:
        """Return whether it makes no run."""
        return not self._own

    def tick(self) -> None:
        """Write progress, keep results, put lost runs back, take new ones."""
        for own in list(self._own.values()):
            self._follow(own)
        if not self._own and not Scenario.objects.filter(state__in=SCENARIO_OPEN).exists():
            if self._ports.clock.mono_s() - self._spare_since_s >= KEEP_S:
                self._end_spare()
            return
        at = self._ports.clock.now()
        self._put_back(at)
        self._read_bases(at)
        while len(self._own) < self._slots and self._take(at):
            pass

    def stop(self) -> None:
        """End all processes and give their runs back, so that another worker may take them at once."""
        self._end_spare()
        for own in self._own.values():
            own.child.end()
            mine = ScenarioRun.objects.filter(pk=own.run.pk, state=RunState.RUNNING, worker=self.name)
            mine.update(state=RunState.QUEUED, worker="", attempts=F("attempts") - 1)
        self._own.clear()

    def _child(self) -> Child:
        """Return a process that waits for a run, or a new one."""
        while self._spare:
            child = self._spare.pop()
            if child.is_alive:
                return child
            child.end()
        return Child()

    def _end_spare(self) -> None:
        for child in self._spare:
            child.end()
        self._spare.clear()

    def _leave(self, own: _OwnRun) -> None:
        """Keep the process of a run that has ended for the next run; end one whose run goes on."""
        del self._own[own.run.pk]
        if own.child.ended and own.child.is_alive:
            self._spare.append(own.child)
            self._spare_since_s = self._ports.clock.mono_s()
        else:
            own.child.end()

    def _follow(self, own: _OwnRun) -> None:
        """Renew the heartbeat of a run, or keep its result; end a run that is no longer wanted."""
        child, now_s = own.child, self._ports.clock.mono_s()
        if not child.ended and now_s - own.told_s < BEAT_S:
            return
        own.told_s = now_s
        is_done, at = child.ended, self._ports.clock.now()
        changes: dict[str, object] = {"heartbeat_at": at, "done_jobs": child.done, "num_jobs": child.total}
        changes |= {"early": child.early}
        if is_done and child.result is not None:
            figures = child.result["figures"]
            jobs = figures["summary"]["jobs"]
            changes |= {"state": RunState.COMPLETED, "ended_at": at, "done_jobs": jobs, "num_jobs": jobs}
            changes |= {"summary": figures["summary"], "figures": figures, "costs": child.result["costs"]}
        elif is_done:
            changes |= {"state": RunState.FAILED, "ended_at": at, "error": child.error[:ERROR_CHARS]}
        with transaction.atomic():
            mine = ScenarioRun.objects.filter(pk=own.run.pk, state=RunState.RUNNING, worker=self.name)
            is_mine = mine.update(**changes) == 1
            if is_done and is_mine:
                self._note_about(own)
                self._settle(own.run.scenario_id, at)
        if is_done or not is_mine:
            self._leave(own)
        self._tell(own.run.scenario_id, at)

    def _note_about(self, own: _OwnRun) -> None:
        """Keep the warnings of reading the jobs, once for each scenario, and the errors of a replay of what was."""
        result = own.child.result
        if result is None:
            return
        scenario = Scenario.objects.only("about").get(pk=own.run.scenario_id)
        if result["warnings"] and not scenario.about.get("warnings"):
            scenario.about["warnings"] = result["warnings"]
        if own.run.variant == AS_IT_WAS:
            scenario.about["fidelity"] = fidelity_rows(scenario.about["happened"], result["seen"])
        scenario.save(update_fields=["about"])

    def _settle(self, scenario_id: str, at: datetime) -> None:
        """End a scenario whose runs have ended; a failed run ends the others, as they could not be compared."""
        runs = ScenarioRun.objects.filter(scenario_id=scenario_id)
        failed = runs.filter(state=RunState.FAILED).order_by("pk").first()
        is_open = Scenario.objects.filter(pk=scenario_id, state__in=SCENARIO_OPEN)
        if failed is not None:
            is_open.update(state=ScenarioState.FAILED, ended_at=at, error=failed.error)
            runs.filter(state__in=RUN_OPEN).update(state=RunState.CANCELLED, ended_at=at)
        elif not runs.filter(state__in=RUN_OPEN).exists():
            is_open.update(state=ScenarioState.COMPLETED, ended_at=at)

    def _put_back(self, at: datetime) -> None:
        """Requeue lost runs; a run that was lost MOST_ATTEMPTS times has failed."""
        lost = ScenarioRun.objects.filter(state=RunState.RUNNING, heartbeat_at__lt=at - LOST_AFTER)
        for run in lost.defer("figures").exclude(pk__in=list(self._own)):
            again = run.attempts < MOST_ATTEMPTS
            error = f"The process that made it was lost {run.attempts} times."
            with transaction.atomic():
                same = ScenarioRun.objects.filter(pk=run.pk, state=RunState.RUNNING, worker=run.worker)
                if again:
                    same.update(state=RunState.QUEUED, worker="")
                elif same.update(state=RunState.FAILED, ended_at=at, error=error):
                    self._settle(run.scenario_id, at)
            log.warning("whatif_run_lost", extra={"scenario": run.scenario_id, "run": run.pk, "again": again})
            self._tell(run.scenario_id, at)

    def _read_bases(self, at: datetime) -> None:
        """Read the starting points of new scenarios, each by one worker."""
        for scenario in Scenario.objects.filter(state=ScenarioState.QUEUED).order_by("created_at"):
            free = Scenario.objects.filter(pk=scenario.pk, state=ScenarioState.QUEUED)
            if scenario.heartbeat_at is not None and at - scenario.heartbeat_at < LOST_AFTER:
                continue  # another worker reads it
            if free.filter(heartbeat_at=scenario.heartbeat_at).update(worker=self.name, heartbeat_at=at) != 1:
                continue
            try:
                base = base_read(scenario, at=at)
            except BadInput as error:
                self._refuse(scenario, str(error), at)
            except Exception:  # a defect must cost one scenario, not hold up all others again and again
                log.exception("whatif_base_failed", extra={"scenario": scenario.pk})
                self._refuse(scenario, "Its starting point could not be read. An admin finds the cause in the log.", at)
            else:
                found = {"base": packed(base.content), "about": base.about, "started_at": at}
                with transaction.atomic():
                    if free.update(state=ScenarioState.RUNNING, **found) and "held" in base.about:
                        seed = scenario.seeds[0]
                        ScenarioRun.objects.get_or_create(scenario=scenario, variant=AS_IT_WAS, seed=seed)
            self._tell(scenario.pk, at)

    def _refuse(self, scenario: Scenario, error: str, at: datetime) -> None:
        with transaction.atomic():
            is_queued = Scenario.objects.filter(pk=scenario.pk, state=ScenarioState.QUEUED)
            is_queued.update(state=ScenarioState.FAILED, ended_at=at, error=error[:ERROR_CHARS])
            runs = ScenarioRun.objects.filter(scenario=scenario, state__in=RUN_OPEN)
            runs.update(state=RunState.CANCELLED, ended_at=at)

    def _take(self, at: datetime) -> bool:
        """Take the next run; return whether there was one to take."""
        waiting = ScenarioRun.objects.filter(state=RunState.QUEUED, scenario__state=ScenarioState.RUNNING)
        run = waiting.defer("figures").order_by("scenario_id", "seed", "variant").first()
        if run is None:
            return False
        claim = ScenarioRun.objects.filter(pk=run.pk, state=RunState.QUEUED)
        taken = {"worker": self.name, "heartbeat_at": at, "started_at": at, "done_jobs": 0, "num_jobs": 0, "early": []}
        if claim.update(state=RunState.RUNNING, attempts=F("attempts") + 1, **taken) != 1:
            return True  # another worker was faster; there may be more
        scenario = Scenario.objects.get(pk=run.scenario_id)
        assert scenario.base is not None
        base = base_file(folder(), scenario.pk, unpacked(bytes(scenario.base)))
        variant = scenario.about["held"] if run.variant == AS_IT_WAS else scenario.variants[run.variant]
        task = {"base": str(base), "variant": variant, "seed": run.seed}
        child = self._child()
        child.begin(task)
        self._own[run.pk] = _OwnRun(run=run, child=child, told_s=self._ports.clock.mono_s())
        return True

    def _tell(self, scenario_id: str, at: datetime) -> None:
        """Send the progress of a scenario to the pages that show it."""
        scenario = Scenario.objects.defer("base").filter(pk=scenario_id).first()
        if scenario is not None:
            self._ports.frames.send(f"scenario.{scenario_id}", "scenario", scenario_progress(scenario, at))
