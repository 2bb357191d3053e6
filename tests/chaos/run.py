"""One chaos run: start the product, break it one way after another, heal, drain, and judge what the jobs did.

The seed decides what breaks and when; what the machine makes of it is real, so two runs of a seed are alike, not equal.
After each fault, or a few at once, the run waits until all is normal: ``/readyz`` is well, every process runs, every
server is up and was heard since, and a round was made since.
"""

import contextlib
import dataclasses
import json
import os
import statistics
import tempfile
import time
from collections import Counter, defaultdict
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

from clusterweb.config.broker import socket_path
from tests.chaos.database import NO_DATABASE, Database, OwnPostgres, Sqlite
from tests.chaos.faults import Disk, Faults, processes
from tests.chaos.hosts import COUNT, Host, can_be_made, way_to_lose
from tests.chaos.judge import Invariants
from tests.chaos.links import Link, unix_door
from tests.chaos.steps import Trained, judge, read
from tests.chaos.workload import ENDED, NO_ANSWER, Users
from tests.support.e2e.stack import RECORDS, Stack, wait_for

SERVERS = 2
KEPT = ("web", "beat", "scheduler", "simulations", "broker", "agent")
NEWEST = """
    SELECT (SELECT MIN(last_report_at) FROM scheduler_server WHERE state = 'up'), round_finished_at
    FROM scheduler_cluster"""
FAILURES = """
    SELECT a.end_cause, a.end_detail, a.failure_line, s.name, COUNT(*) FROM scheduler_attempt a
    JOIN scheduler_job j ON j.id = a.job_id JOIN scheduler_lease l ON l.attempt_id = a.id
    JOIN scheduler_server s ON s.id = l.server_id
    WHERE j.state = 'failed' AND a.ended_at IS NOT NULL GROUP BY 1, 2, 3, 4 ORDER BY 5 DESC"""
NORMAL_WITHIN_S = 180.0
DRAIN_WITHIN_S = 600.0
LEFT_AT_MOST_S = 30.0  # a process that was told to end, when its job has
REST_MOST_S = 8.0
AT_ONCE_FRAC = 0.25

Json = dict[str, Any]


@dataclasses.dataclass(slots=True, kw_only=True)
class Struck:
    """One fault of the log.

    Attributes:
        at_s: Since the run began.
        lasted_s: Until it was ended.
        normal_s: From its end until all was normal.
    """

    at_s: float
    kind: str
    hit: str
    lasted_s: float
    normal_s: float = 0.0


class ChaosRun:
    """One run."""

    def __init__(self, *, seed: int, minutes: float, on_postgres: bool = False, say: Any = print) -> None:
        self.seed, self.minutes, self.on_postgres, self._say = seed, minutes, on_postgres, say
        self.struck: list[Struck] = []
        self.left_out: list[str] = []
        self._hosts: list[Host] = []
        self._rng = Random(f"{seed}-nemesis")
        self._began_s = time.monotonic()

    def run(self) -> Json:
        """Run to the end and return what was found."""
        with contextlib.ExitStack() as at_end:
            folder = Path(at_end.enter_context(tempfile.TemporaryDirectory(prefix="chaos-")))
            disk = Disk(folder / "var")
            at_end.callback(disk.close)
            self._database = self._make_database(disk, at_end)
            self._invariants = Invariants(self._database.says)
            on_it = {"DATABASE_URL": self._database.url} if self._database.url else {}
            stack = Stack(disk.path, **on_it)
            at_end.callback(stack.destroy)
            try:
                stack.start(within_s=180.0)
                links = self._links(stack)
                for link in links.values():
                    at_end.callback(link.stop)
                self._start_hosts(stack, at_end)
                begun = datetime.now(UTC)
                wait_for("all servers behind links", lambda: self._is_normal(stack, since=begun), within_s=60)
                records = Path(tempfile.mkdtemp(dir=RECORDS.name))
                records.chmod(0o1777)  # jobs of a product that root started have users of their own
                users = Users(stack.client("member"), records, rng=Random(f"{self.seed}-users"))
                faults = Faults(
                    stack,
                    disk=disk,
                    links=links,
                    database=self._database,
                    hosts=self._hosts,
                    loses=self._way_to_lose(disk),
                    rng=self._rng,
                )
                self._strike(stack, faults, users)
                drained_s = self._drain(users)
                return self._judge(stack, users, drained_s=drained_s)
            except BaseException:
                self._say(stack.tail())
                raise

    def _make_database(self, disk: Disk, at_end: contextlib.ExitStack) -> Database:
        if not self.on_postgres:
            return Sqlite(disk.path)
        database = OwnPostgres()
        at_end.callback(database.destroy)
        database.start()
        return database

    def _start_hosts(self, stack: Stack, at_end: contextlib.ExitStack) -> None:
        """Add hosts with a network of their own where we may make them."""
        for number in range(1, COUNT + 1) if can_be_made() else ():
            host = Host(stack, number)
            at_end.callback(host.destroy)
            host.start()
            self._hosts.append(host)

    def _way_to_lose(self, disk: Disk) -> str | None:
        """Return how hosts lose packets, and say what of all faults cannot be tried on this machine."""
        way = way_to_lose() if self._hosts else None
        missing = {
            "full disk: no file system may be mounted": disk.is_small,
            "hosts with a network of their own: no namespace may be made": self._hosts,
            "packet loss: no tc, or no netem and no filters in the kernel": way,
        }
        self.left_out = [what for what, is_there in missing.items() if not is_there]
        for what in self.left_out:
            self._say(f"left out: {what}")
        return way

    def _links(self, stack: Stack) -> dict[str, Link]:
        """Put each agent behind a link of its own; the agents begin anew."""
        links = {}
        for path in sorted((stack.var_dir / "agents").glob("server-*.json")):
            door = path.with_suffix(".sock")
            link = Link(unix_door(door), socket_path(stack.var_dir))
            told = json.loads(path.read_text())
            told["redis_url"] = told["redis_url"].partition("@")[0] + "@" + str(door)
            path.write_text(json.dumps(told))
            links[path.stem] = link
        for agent in processes(stack, "agent"):
            agent.kill()
        return links

    def _is_normal(self, stack: Stack, *, since: datetime) -> bool:
        try:
            if not stack.ready() or stack.servers_up() != SERVERS + len(self._hosts):
                return False
            [(heard, planned)] = self._database.says(NEWEST)
        except (*NO_ANSWER, AssertionError, *NO_DATABASE):
            return False
        times = [datetime.fromisoformat(str(text)).replace(tzinfo=UTC) for text in (heard, planned)]
        return min(times) > since and all(processes(stack, name) for name in KEPT)

    def _strike(self, stack: Stack, faults: Faults, users: Users) -> None:
        self._began_s = time.monotonic()
        users.start()
        try:
            kinds: list[str] = []
            while time.monotonic() - self._began_s < 60 * self.minutes:
                # Every kind comes once before any comes again.
                wanted = 1 + (self._rng.random() < AT_ONCE_FRAC) * self._rng.randrange(1, 3)
                while len(kinds) < wanted:
                    kinds += self._rng.sample(sorted(faults.kinds), k=len(faults.kinds))
                self._strike_once(stack, faults, [kinds.pop(0) for _ in range(wanted)])
                time.sleep(REST_MOST_S * self._rng.random())
        finally:
            users.stop()

    def _strike_once(self, stack: Stack, faults: Faults, kinds: list[str]) -> None:
        begun = []
        for kind in kinds:
            at_s = time.monotonic() - self._began_s
            hit, seconds, end = faults.begin(kind)
            begun.append((at_s + seconds, end))
            self.struck.append(Struck(at_s=round(at_s, 2), kind=kind, hit=hit, lasted_s=round(seconds, 2)))
        for until_s, end in sorted(begun, key=lambda one: one[0]):
            time.sleep(max(0.0, until_s - (time.monotonic() - self._began_s)))
            end()
        healed_s, healed = time.monotonic(), datetime.now(UTC)
        while not self._is_normal(stack, since=healed):
            assert time.monotonic() - healed_s < NORMAL_WITHIN_S, f"not normal after {kinds}: {stack.tail()}"
            time.sleep(0.1)
        normal_s = round(time.monotonic() - healed_s, 2)
        for one in self.struck[-len(kinds) :]:
            one.normal_s = normal_s
        with contextlib.suppress(*NO_DATABASE):  # then it was no look
            self._invariants.look()
        self._say(f"{time.monotonic() - self._began_s:6.0f} s  {' + '.join(kinds)}: normal after {normal_s:.1f} s")

    def _drain(self, users: Users) -> float:
        """Let every job end; return how long that took, seconds."""
        begun_s = time.monotonic()

        def drained() -> bool:
            users.send_unanswered()
            users.resume_all()
            users.look()
            return all(one.state in ENDED for one in users.asked)

        while not drained() and time.monotonic() - begun_s < DRAIN_WITHIN_S:
            time.sleep(1.0)
        return time.monotonic() - begun_s

    def _judge(self, stack: Stack, users: Users, *, drained_s: float) -> Json:
        ended_s = time.monotonic()
        while (left := processes(stack, "trainer")) and time.monotonic() - ended_s < LEFT_AT_MOST_S:
            time.sleep(0.5)
        self._invariants.finish()
        rows = self._database.says("SELECT id, state FROM scheduler_job WHERE name LIKE 'chaos-%'")
        known = {str(pk): str(state) for pk, state in rows}
        found: dict[int, Trained] = {
            one.number: judge(read(one.record.read_text()), total=one.total)
            for one in users.asked
            if one.record.exists()
        }
        completed = {one.number: one.total for one in users.asked if one.state == "completed"}
        missing = {number: found[number].missing if number in found else total for number, total in completed.items()}
        return {
            "seed": self.seed,
            "minutes": self.minutes,
            "database": "postgresql" if self.on_postgres else "sqlite",
            "hosts": len(self._hosts),
            "left_out": self.left_out,
            "faults": len(self.struck),
            "by_kind": _by_kind(self.struck),
            "drained_s": round(drained_s, 1),
            "jobs": {
                "asked": len(users.asked),
                "sent_again": sum(one.sends > 1 for one in users.asked),
                "states": dict(sorted(Counter(one.state or "unknown" for one in users.asked).items())),
                "attempts": sum(one.attempts for one in found.values()),
            },
            "lost": sorted(one.number for one in users.asked if one.job_id and one.job_id not in known),
            "doubled": len(known) - len({one.job_id for one in users.asked}),
            "not_ended": sorted(one.number for one in users.asked if one.state not in ENDED),
            "not_completed": sorted(one.number for one in users.asked if one.state in ("failed", "cancelled")),
            "failures": [list(row) for row in self._database.says(FAILURES)],
            "twice_at_once": {number: one.overlaps for number, one in found.items() if one.overlaps},
            "steps": {
                "trained": sum(one.steps for one in found.values()),
                "again": sum(one.again for one in found.values()),
                "again_before_a_sure_checkpoint": sum(one.beyond for one in found.values()),
                "missing_of_completed": sum(missing.values()),
            },
            "left_over": [f"pid {one.pid}" for one in left],
            "invariants": {"looks": self._invariants.looks, "broken": self._invariants.broken},
            "jobs_beyond": {number: one.beyond for number, one in found.items() if one.beyond},
            "log": [dataclasses.asdict(one) for one in self.struck],
            "load_1min": round(os.getloadavg()[0], 1),
        }


def _by_kind(struck: list[Struck]) -> dict[str, Json]:
    normal: dict[str, list[float]] = defaultdict(list)
    for one in struck:
        normal[one.kind].append(one.normal_s)
    return {
        kind: {
            "faults": len(seconds),
            "normal_after_s": round(statistics.median(seconds), 1),
            "at_most_s": round(max(seconds), 1),
        }
        for kind, seconds in sorted(normal.items())
    }
