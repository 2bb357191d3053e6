"""A run whose jobs bring requirements: builders are killed, indexes silent, caches full, beside all other faults.

E1: no process begins in an environment that is not whole. E2: an environment is built once at a time on a server, and
is never removed under an attempt. E3: a job whose environment cannot be built fails once, by that cause, with the
builder's sentence, without an attempt and a charge; all others end as jobs without environments do. That a job which
waits holds nothing is L3.
"""

import itertools
import tempfile
import time
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest

from agents.environments import store
from scheduler.core.model.lifecycle import EndCause, JobState
from scheduler.models import Attempt, Event, Job
from tests.faults.preparing.building import SENTENCE, UNKNOWN, Builds
from tests.faults.run import FaultRun, Outcome
from tests.faults.virtual import Violation

# Equal requirements are one environment for a queue.
REQUIREMENTS = ("einops\n", "tqdm\n", "einops\ntqdm\n", f"{UNKNOWN}\n")
PREPARING_FRAC = 0.7  # of the jobs


class PreparingRun(FaultRun):
    """One run; its files are below ``root``."""

    drain_s = 3_000.0  # a build that met no index is tried again after ten minutes at the latest

    def __init__(self, seed: int, *, root: Path, strike_s: float) -> None:
        super().__init__(seed, strike_s=strike_s)
        self._rng = Random(f"{seed}-preparing")
        for machine in self.machines:
            folder = root / machine.name
            folder.mkdir(parents=True)
            machine.builds = Builds(machine, folder, Random(f"{seed}-{machine.name}-builds"))
        self.users.more = self._requirements
        self.nemesis.also(self._kill_builder, self._kill_builder)

    @property
    def words(self) -> str:
        """As for every run."""
        return f"{super().words} preparing"

    def run(self) -> Outcome:
        """Run to the end. Raises Violation."""
        numbers = itertools.count()
        # The store names what it removes, and notes uses, by the clock of the machine that runs this.
        clock = SimpleNamespace(time=lambda: 0.0, time_ns=lambda: next(numbers), monotonic=time.monotonic)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(store, "time", clock)
            try:
                return super().run()
            finally:
                for machine in self.machines:
                    assert machine.builds is not None
                    machine.builds.power_off()

    def _requirements(self) -> dict[str, object]:
        if self._rng.random() >= PREPARING_FRAC:
            return {}
        text = self._rng.choice(REQUIREMENTS)
        return {"files": {"requirements.txt": text}, "python": {"requirements": "requirements.txt"}}

    def _kill_builder(self) -> None:
        """KILL a builder, wherever it is."""
        living = [
            (machine, builder)
            for machine in self.machines
            for builder in (machine.builds.builders if machine.builds else ())
            if builder.is_alive
        ]
        if living:
            machine, builder = self._rng.choice(living)
            self.trace.fault("kill_builder", machine.name, builder.name[:8])
            builder.die()

    def look(self) -> None:
        """E2, after every step of a scheduler or a user."""
        super().look()
        for machine in self.machines:
            assert machine.builds is not None
            running = {
                one.attempt_id for one in machine.supervisors.values() if one.trainer and one.trainer.exit is None
            }
            machine.builds.check(running)

    def look_at_end(self) -> None:
        """E3, when all jobs have ended."""
        super().look_at_end()
        for job in Job.objects.exclude(environment=None).order_by("number"):
            is_broken = any(UNKNOWN in text for text in job.environment.files.values())  # type: ignore[union-attr]
            failed = Event.objects.filter(job=job, new_state=JobState.FAILED, reason=EndCause.ENVIRONMENT).count()
            ran = Attempt.objects.filter(job=job).exists()
            end = (job.end_cause, failed, ran)
            if is_broken and job.state != JobState.CANCELLED and end != (EndCause.ENVIRONMENT, 1, False):
                raise Violation("E3", f"J-{job.number} cannot be built: {job.state}, {end}")
            if is_broken and failed and job.end_detail != SENTENCE:
                raise Violation("E3", f"J-{job.number} ended with {job.end_detail!r}")
            if not is_broken and failed:
                raise Violation("E3", f"J-{job.number} can be built and failed by its environment")
            if not ran and job.attained_gpu_s:
                raise Violation("E3", f"J-{job.number} never ran and was charged {job.attained_gpu_s}")


def prepared(seed: int, *, strike_s: float) -> Outcome:
    """Make a run and run it in a folder of its own. Raises Violation."""
    with tempfile.TemporaryDirectory(prefix="clusterweb-preparing-") as folder:
        return PreparingRun(seed, root=Path(folder), strike_s=strike_s).run()
