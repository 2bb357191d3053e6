"""Measure how large a database is, and how fast its main queries are, over a year of a busy cluster.

The part ``memory`` asks what the scheduler's engine holds of jobs that have ended.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from benchmarks.bench_pages import measured_apart
from benchmarks.bench_submit import percentile
from benchmarks.support.postgres import postgres

QUESTION = "Size of the database and p50 of its main queries over a year, cleaned up each day by the policy"
YEAR, SEASON = 365, 105
MARKS = (30, 60, 75, 90, 105, 180, 270, 365)
FLAT_FROM = 75  # jobs are kept 60 days; then as much goes as comes
TARGET_GROWTH = 1.1  # of size, from day FLAT_FROM to the last
REPEATS = 9
ENDED_JOBS = 500
START = datetime(2026, 1, 1, tzinfo=UTC)


def small() -> dict[str, Any]:
    """Measure one job in 200 on SQLite, with its samples: some minutes on a quiet machine."""
    with tempfile.TemporaryDirectory(prefix="clusterweb-bench-") as folder:
        return _measured(folder, f"sqlite:///{folder}/bench.sqlite3", jobs_a_day=50, days=YEAR, has_samples=True)


def season() -> dict[str, Any]:
    """Measure 10,000 jobs a day on PostgreSQL, until each age has passed and a month longer: most of an hour."""
    with tempfile.TemporaryDirectory(prefix="clusterweb-bench-") as folder, postgres() as url:
        return _measured(folder, url, jobs_a_day=10_000, days=SEASON, has_samples=False)


def memory() -> dict[str, Any]:
    """Measure what the engine holds of each job that has ended: half a minute on a quiet machine."""
    with tempfile.TemporaryDirectory(prefix="clusterweb-bench-") as folder:
        return measured_apart("benchmarks.support.ended_jobs", folder, ENDED_JOBS=str(ENDED_JOBS))


PARTS = {"small": small, "season": season, "memory": memory}


def _measured(folder: str, url: str, *, jobs_a_day: int, days: int, has_samples: bool) -> dict[str, Any]:
    asked = {"GROWTH_JOBS_A_DAY": str(jobs_a_day), "GROWTH_DAYS": str(days), "GROWTH_SAMPLES": str(int(has_samples))}
    return measured_apart("benchmarks.bench_growth", folder, DATABASE_URL=url, **asked)


def main() -> None:
    """Live so many days in the database that the environment names, and print what was measured."""
    import django

    django.setup()

    from django.core.management import call_command

    from benchmarks.support.lived_year import LivedYear
    from scheduler.live.reports.rollup import samples_roll_up
    from scheduler.services.retention.remove import old_rows_remove

    call_command("migrate", verbosity=0)
    days, has_samples = int(os.environ["GROWTH_DAYS"]), os.environ["GROWTH_SAMPLES"] == "1"
    lived = LivedYear(jobs_a_day=int(os.environ["GROWTH_JOBS_A_DAY"]), start=START, has_samples=has_samples)
    marks: list[dict[str, Any]] = []
    cleaned_s, slowest_s = 0.0, 0.0
    for day in range(1, days + 1):
        lived.day(day)
        at = START + timedelta(days=day)
        begun_s = time.perf_counter()
        chunks = _Chunks()
        old_rows_remove(at=at, go_on=chunks)
        samples_roll_up(at=at, go_on=chunks)
        cleaned_s += time.perf_counter() - begun_s
        slowest_s = max(slowest_s, chunks.slowest_s)
        if day in MARKS:
            lived.settle()
            size, baseline_ms = lived.size(), p50_ms(lived.baseline)
            p50 = {name: p50_ms(ask) for name, ask in lived.queries(at).items()}
            # The mean of before and after: neighbours on the machine slow both.
            baseline_ms = round((baseline_ms + p50_ms(lived.baseline)) / 2, 3)
            kept = {"day": day, "kept_jobs": lived.kept_jobs(), **size}
            marks.append({**kept, "baseline_ms": baseline_ms, "p50_ms": p50})
    first, last = next(mark for mark in marks if mark["day"] == FLAT_FROM), marks[-1]
    slower = last["baseline_ms"] / first["baseline_ms"]
    found = {
        "days": days,
        "jobs_a_day": lived.jobs_a_day,
        "jobs": lived.jobs_a_day * days,
        "jobs_by_the_sums": lived.jobs_by_the_sums(),
        "gpu_hours": round(lived.gpu_hours, 3),
        "gpu_hours_by_the_sums": round(lived.gpu_hours_by_the_sums(), 3),
        "clean_up_s_a_day": round(cleaned_s / days, 3),
        "slowest_chunk_s": round(slowest_s, 3),
        "marks": marks,
        "growth_of_size": round(last["bytes"] / first["bytes"], 3),
        "growth_of_p50": {
            name: round(last["p50_ms"][name] / first["p50_ms"][name] / slower, 2) for name in first["p50_ms"]
        },
        "target_growth_of_size": TARGET_GROWTH,
    }
    json.dump(found, sys.stdout)


class _Chunks:
    """Lets a pass go on to its end, and times its chunks."""

    def __init__(self) -> None:
        self.slowest_s, self._began_s = 0.0, 0.0

    def __call__(self) -> bool:
        now_s = time.perf_counter()
        if self._began_s:
            self.slowest_s = max(self.slowest_s, now_s - self._began_s)
        self._began_s = now_s
        return True


def p50_ms(ask: Callable[[], object]) -> float:
    """Return the median of a query in milliseconds, after a first one that does not count."""
    ask()
    took = []
    for _ in range(REPEATS):
        begun_s = time.perf_counter()
        ask()
        took.append(time.perf_counter() - begun_s)
    return round(1_000 * percentile(took, 0.5), 3)


if __name__ == "__main__":
    main()
