"""Measure the time from an agent's report to the browser, with many viewers of the dashboard.

BENCH_VIEWERS=50 python -m benchmarks viewers
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from functools import lru_cache
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import redis
import websockets

from agents.protocol.signing import DeviceReport, ServerReport, Stamp, seal
from benchmarks.bench_submit import percentile
from tests.support.e2e.stack import ROOT, Stack

QUESTION = "Seconds from an agent's report of a new value to 1,000 browsers that watch the dashboard"
TARGET_P99_S = 0.5
VIEWERS = int(os.environ.get("BENCH_VIEWERS", 1_000))
USERS = 100  # who share the viewers
REPORTS = 60
EVERY_S = 0.5
CONNECTED_WITHIN_S = 300.0
CONNECT_AT_ONCE = 20


def session_cookies(stack: Stack) -> list[str]:
    """Return the cookie headers of users who have signed in."""
    own = {"VAR_DIR": str(stack.var_dir), "DJANGO_SETTINGS_MODULE": "clusterweb.settings"}
    command = [sys.executable, "-m", "benchmarks.support.viewers", str(min(USERS, VIEWERS))]
    done = subprocess.run(command, env={**os.environ, **stack.environment, **own}, check=True, stdout=subprocess.PIPE)
    keys: list[str] = json.loads(done.stdout)
    return [f"sessionid={key}" for key in keys]


@lru_cache(maxsize=1_000)
def values_in(text: str | bytes, server_id: str) -> tuple[float, ...]:
    """Return the values of a server that a frame tells; most viewers get the same frames."""
    frame = json.loads(text)
    servers = frame["data"]["servers"] if frame["kind"] == "cluster" else ()
    return tuple(gpu["utilization_frac"] for server in servers if server["id"] == server_id for gpu in server["gpus"])


class Reporter:
    """A simulated server whose device reports the time of sending as its value."""

    def __init__(self, stack: Stack, config: dict[str, Any]) -> None:
        self.config = config
        self.client = redis.Redis.from_url(config["redis_url"])
        self.sent_s: dict[float, float] = {}
        self.sequence = int(time.time() * 1000)

    def report(self, index: int) -> None:
        """Send one report with a fresh utilization value."""
        value = round(index / 1000, 4)
        self.sequence += 1
        device = DeviceReport(
            index=0, uuid="bench", model="CPU slot", memory_bytes=0, healthy=True, utilization_frac=value
        )
        body = ServerReport(
            agent_version="bench", boot_id="bench", device_kind="cpu_slot", isolation="none", num_cpus=1,
            memory_bytes=2**30, cpu_frac=0.0, used_memory_bytes=0, devices=(device,), attempts=(),
        )  # fmt: skip
        message = seal(
            key=bytes.fromhex(self.config["key_hex"]), direction="report", server=self.config["server_id"],
            stamp=Stamp(epoch=0, generation=0, sequence=self.sequence), now_s=time.time(), body=body.to_json(),
        )  # fmt: skip
        self.sent_s[value] = time.time()
        self.client.lpush(f"reports.{self.config['server_id']}", message)


class Viewers:
    """Pages that are open, and how old each fresh value was when it reached each of them."""

    def __init__(self, stack: Stack, reporter: Reporter) -> None:
        self._stack, self._reporter = stack, reporter
        self._door = asyncio.Semaphore(CONNECT_AT_ONCE)
        self.delays: list[float] = []
        self.connected = 0
        self.is_over = False

    async def view(self, cookie: str) -> None:
        """Open one page and watch until it is over."""
        url = f"{self._stack.url.replace('http', 'ws')}/ws/live?groups=cluster"
        headers = {"Cookie": cookie, "Origin": self._stack.url}
        sent_s, server_id = self._reporter.sent_s, self._reporter.config["server_id"]
        async with self._door:
            socket = await websockets.connect(url, additional_headers=headers, open_timeout=CONNECTED_WITHIN_S)
        self.connected += 1
        seen: set[float] = set()
        async with socket:
            while not self.is_over:
                try:
                    text = await asyncio.wait_for(socket.recv(), timeout=1.0)
                except TimeoutError:
                    continue
                now_s = time.time()
                for value in values_in(text, server_id):
                    if value in sent_s and value not in seen:
                        seen.add(value)
                        self.delays.append(now_s - sent_s[value])


async def measure(stack: Stack, cookies: list[str], reporter: Reporter) -> list[float]:
    """Connect the viewers, send the reports, return all delays."""
    viewers = Viewers(stack, reporter)
    tasks = [asyncio.create_task(viewers.view(cookie)) for cookie in islice(cycle(cookies), VIEWERS)]
    end_s = time.monotonic() + CONNECTED_WITHIN_S
    while viewers.connected < VIEWERS:
        assert time.monotonic() < end_s, f"{viewers.connected} of {VIEWERS} are connected"
        await asyncio.sleep(0.2)
    await asyncio.sleep(4)
    for index in range(1, REPORTS + 1):
        reporter.report(index)
        await asyncio.sleep(EVERY_S)
    await asyncio.sleep(4)
    viewers.is_over = True
    await asyncio.gather(*tasks)
    return viewers.delays


def add_server(stack: Stack) -> dict[str, Any]:
    """Register a server for the reporter."""
    path = stack.var_dir / "agents" / "bench.json"
    agent = json.loads((stack.var_dir / "agents" / "server-01.json").read_text())
    environment = {**os.environ, "VAR_DIR": str(stack.var_dir), "REDIS_URL": agent["redis_url"]}
    command = [sys.executable, "manage.py", "add_server", "bench-01", "--config", str(path)]
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
    config: dict[str, Any] = json.loads(path.read_text())
    return config


def run() -> dict[str, Any]:
    """Measure with a real stack and real WebSocket clients on the same machine."""
    with tempfile.TemporaryDirectory(prefix="clusterweb-bench-") as directory:
        stack = Stack(Path(directory) / "var", ROUND_S="10", LEASE_TTL_S="30", LOST_GRACE_S="15")
        try:
            stack.start()
            reporter = Reporter(stack, add_server(stack))
            everything = asyncio.run(measure(stack, session_cookies(stack), reporter))
        finally:
            stack.destroy()
    return {
        "viewers": VIEWERS,
        "reports": REPORTS,
        "values_seen_of_sent": round(len(everything) / (VIEWERS * REPORTS), 3),
        "delay_p50_s": round(percentile(everything, 0.5), 4),
        "delay_p99_s": round(percentile(everything, 0.99), 4),
        "target_p99_s": TARGET_P99_S,
    }
