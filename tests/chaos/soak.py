"""``make soak MINUTES=60 [POSTGRES=1]``: the product under the jobs of three days in an hour; nothing may grow.

Jobs run on simulated servers by a clock that is 72 times as fast; the control plane is the real one, but keeps rows for
a sixth of the time (``soak_settings.py``). What each of its processes holds is looked at all along: memory, file
handles, threads; and the size of the database, which is to stay in the last third, since as much is removed as is
written. The first third of the time counts as starting up. The result goes to ``benchmarks/results/soak.json``, or
``soak-postgres.json``.
"""

import argparse
import contextlib
import json
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import psutil

from benchmarks.__main__ import RESULTS, machine
from benchmarks.support.simulated import simulated
from tests.chaos.database import Database, OwnPostgres, Sqlite
from tests.chaos.faults import processes
from tests.chaos.flat import line
from tests.chaos.results import results_at
from tests.chaos.workload import NO_ANSWER
from tests.support.e2e.stack import Client, Stack

FASTER = 72
SERVERS, SLOTS = 10, 8
KINDS = ("web", "beat", "scheduler", "simulations", "broker", "agent")
JOBS_A_S = 5.0  # 6,000 a day of the jobs' clock
JOB_S = 600.0  # of the jobs' clock
LOOKS = 240
STARTING_FRAC = 1 / 3
FAILS, CANCELLED = 20, 10  # one job of so many
# By what a quantity has to rise, beyond its noise, to be called growing.
LEAST = {"memory_mib": 5.0, "handles": 3.0, "threads": 2.0}
# An agent's pool makes its four threads as they are needed: two more of two agents in that time are no leak.
LEAST_OF_POOLS = {("agent", "threads"): 4.0}
KEPT_FRAC = 1 / 6  # of the time: how long jobs and rounds are kept
FLAT_FRAC = 0.1  # a database that grows by less than so much of its first pace, when nothing was removed, is flat
SETTLES_S = 360.0  # samples are kept for half of it at least, and the clean-up comes once a minute
TABLES = ("job", "event", "attempt", "lease", "round", "sample")
ROWS = "SELECT " + ", ".join(f"(SELECT COUNT(*) FROM scheduler_{table})" for table in TABLES)
ENDED = """
    SELECT (SELECT COUNT(*) FROM scheduler_job WHERE ended_at IS NOT NULL),
        (SELECT COALESCE(SUM(num_jobs), 0) FROM scheduler_jobday)"""
REMOVED = "old_rows_removed"  # the event that the scheduler writes down

Json = dict[str, Any]


class Load:
    """Users who submit jobs at a steady pace, cancel some and look at pages."""

    def __init__(self, client: Client, *, rng: Random) -> None:
        self._client, self._rng = client, rng
        self.submitted = self.refused = 0

    def keep_up(self, passed_s: float) -> None:
        """Submit what is due."""
        while self.submitted < passed_s * JOBS_A_S:
            number = self.submitted
            self.submitted += 1
            answer = self._call("POST", "/api/v1/jobs", self._spec(number))
            if answer is None:
                self.refused += 1
            elif number % CANCELLED == 0:
                self._call("POST", f"/api/v1/jobs/{answer['id']}/cancel")
            if number % 5 == 0:
                self._call("GET", self._rng.choice(["/api/v1/jobs?limit=50", "/api/v1/queues", "/api/v1/servers"]))

    def _spec(self, number: int) -> Json:
        env = {"SIMULATED_STEPS": str(JOB_S), "SIMULATED_STEPS_PER_S": str(FASTER)}
        if number % FAILS == 0:
            env |= {"SIMULATED_FAILS_AT_STEP": str(JOB_S / 2), "SIMULATED_FAILURE": "network"}
        return {"apiVersion": "v1", "name": f"soak-{number}", "queue": "vision", "command": ["train"], "env": env}

    def _call(self, method: str, path: str, body: Json | None = None) -> Json | None:
        with contextlib.suppress(*NO_ANSWER):
            answer = self._client.call(method, path, body)
            if answer.status < 400:
                found: Json = answer.json
                return found
        return None


def run(*, minutes: float, on_postgres: bool, seed: int = 1) -> Json:
    """Run once and return what was found."""
    with contextlib.ExitStack() as at_end:
        folder = Path(at_end.enter_context(tempfile.TemporaryDirectory(prefix="soak-"))) / "var"
        database: Database = Sqlite(folder)
        environment = {
            "ROUND_S": "5",
            "SETTINGS_MODULE": "tests.chaos.soak_settings",
            "SOAK_KEPT_S": str(60 * minutes * KEPT_FRAC),
        }
        if on_postgres:
            database = OwnPostgres()
            at_end.callback(database.destroy)
            database.start()
            environment["DATABASE_URL"] = database.url
        stack = Stack(folder, **environment)
        at_end.callback(stack.destroy)
        stack.start()
        at_end.enter_context(simulated(stack, SERVERS, slots=SLOTS, jobs=0))
        return _watched(stack, database, Load(stack.client("member"), rng=Random(seed)), minutes=minutes)


def _watched(stack: Stack, database: Database, load: Load, *, minutes: float) -> Json:
    begun_s, every_s = time.monotonic(), 60 * minutes / LOOKS
    times_s: list[float] = []
    seen: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    bytes_: list[int] = []
    rows: list[tuple[int, ...]] = []
    while (passed_s := time.monotonic() - begun_s) < 60 * minutes:
        load.keep_up(passed_s)
        if passed_s < len(times_s) * every_s:
            time.sleep(0.05)
            continue
        times_s.append(passed_s)
        bytes_.append(database.size())
        rows += database.says(ROWS)
        for kind in KINDS:
            for name, value in _held(processes(stack, kind)).items():
                seen[kind][name].append(value)
    start = int(len(times_s) * STARTING_FRAC)
    kinds: Json = {}
    grows: list[str] = []
    for kind, quantities in seen.items():
        kinds[kind] = {}
        for name, values in quantities.items():
            found = line(times_s[start:], values[start:])
            kinds[kind][name] = {
                "mean": round(found.mean, 1), "per_hour": round(found.per_hour, 2), "noise": round(found.noise, 2)
            }  # fmt: skip
            grows += (
                [f"{name} of {kind}"] if found.grows(at_least=LEAST_OF_POOLS.get((kind, name), LEAST[name])) else []
            )
    [(ended, removed)] = database.says(ENDED)
    size = pace(times_s, [size / 2**20 for size in bytes_], kept_s=60 * minutes * KEPT_FRAC)
    grows += ["size of the database"] if size["is_flat"] is False else []
    third = 2 * len(times_s) // 3
    return {
        "minutes": minutes,
        "days_of_jobs": round(minutes * FASTER / 1_440, 2),
        "submitted": load.submitted,
        "refused": load.refused,
        "ended": ended + int(removed),
        "processes": kinds,
        "kept_minutes": round(minutes * KEPT_FRAC, 1),
        "removed": {"jobs": int(removed), "rows": removed_rows(stack.log.read_text(errors="replace"))},
        "rows_in_the_last_third": dict(zip(TABLES, zip(rows[third], rows[-1], strict=True), strict=True)),
        "database_mib": size,
        "grows": grows,
    }


def pace(times_s: Sequence[float], mib: Sequence[float], *, kept_s: float) -> Json:
    """Return the size of the database in the last third, and whether it stays by the pace at which it began to grow.

    None where that third begins before as much can go as comes: the run was too short to tell.
    """
    young = sum(at_s < kept_s for at_s in times_s)
    third = 2 * len(times_s) // 3
    first, last = line(times_s[:young], mib[:young]), line(times_s[third:], mib[third:])
    is_flat = last.per_hour < FLAT_FRAC * first.per_hour or not last.grows(at_least=0.0)
    return {
        "last_third": [round(mib[third], 1), round(mib[-1], 1)],
        "per_hour_first": round(first.per_hour, 1),
        "per_hour_last": round(last.per_hour, 1),
        "is_flat": is_flat if times_s[third] >= kept_s + SETTLES_S else None,
    }


def removed_rows(log: str) -> dict[str, int]:
    """Return how many rows of each kind the product says in its log that it removed."""
    gone: Counter[str] = Counter()
    for told in log.splitlines():
        if f'"{REMOVED}"' in told:
            found = json.loads(told[told.index("{") :])
            gone.update({name: value for name, value in found.items() if isinstance(value, int)})
    return dict(sorted(gone.items()))


def _held(own: list[psutil.Process]) -> dict[str, float]:
    """Return what processes of one kind hold together."""
    held = dict.fromkeys(LEAST, 0.0)
    for process in own:
        with contextlib.suppress(psutil.Error):
            held["memory_mib"] += process.memory_info().rss / 2**20
            held["handles"] += process.num_fds()
            held["threads"] += process.num_threads()
    return held


def main() -> int:
    """Run once; return 1 where something grows."""
    parser = argparse.ArgumentParser(prog="make soak")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--postgres", action="store_true", help="on a PostgreSQL of its own")
    parser.add_argument("--to", type=Path, help="soak.json or soak-postgres.json, if it is not said")
    told = parser.parse_args()
    where = machine()
    found = run(minutes=told.minutes, on_postgres=told.postgres)
    to = told.to or RESULTS / results_at("soak", on_postgres=told.postgres)
    to.write_text(json.dumps({"machine": where, "result": found}, indent=1) + "\n")
    print(json.dumps(found, indent=1))
    return bool(found["grows"])


if __name__ == "__main__":
    sys.exit(main())
