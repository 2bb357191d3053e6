"""Measure the time from an agent's report to the browser, with many viewers of the dashboard."""

import asyncio
import http.cookiejar
import json
import tempfile
import time
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import redis
import websockets

from agents.protocol.signing import DeviceReport, ServerReport, Stamp, seal
from benchmarks.bench_submit import percentile
from tests.support.e2e.stack import ROOT, Stack

QUESTION = "Seconds from an agent's report of a new value to 50 browsers that watch the dashboard"
TARGET_P99_S = 1.0
VIEWERS = 50
REPORTS = 60
EVERY_S = 0.5


def session_cookie(stack: Stack) -> str:
    """Sign in as a person does and return the cookie header."""
    jar = http.cookiejar.CookieJar()
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))
    opener.open(f"{stack.url}/sign-in").read()
    token = next(cookie.value for cookie in jar if cookie.name == "csrftoken")
    form = {"username": "admin", "password": stack.password("admin"), "csrfmiddlewaretoken": token or ""}
    request = urllib.request.Request(f"{stack.url}/sign-in", data=urllib.parse.urlencode(form).encode())
    request.add_header("Referer", f"{stack.url}/sign-in")
    opener.open(request).read()
    return "; ".join(f"{cookie.name}={cookie.value}" for cookie in jar)


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


async def view(stack: Stack, cookie: str, reporter: Reporter, delays: list[float], until_s: float) -> None:
    """Watch the dashboard's frames and note how old each fresh value is."""
    url = f"{stack.url.replace('http', 'ws')}/ws/live?groups=cluster"
    async with websockets.connect(url, additional_headers={"Cookie": cookie, "Origin": stack.url}) as socket:
        seen: set[float] = set()
        while time.time() < until_s:
            try:
                frame = json.loads(await asyncio.wait_for(socket.recv(), timeout=1.0))
            except TimeoutError:
                continue
            if frame["kind"] != "cluster":
                continue
            for server in frame["data"]["servers"]:
                for gpu in server["gpus"] if server["id"] == reporter.config["server_id"] else []:
                    value = gpu["utilization_frac"]
                    if value in reporter.sent_s and value not in seen:
                        seen.add(value)
                        delays.append(time.time() - reporter.sent_s[value])


async def measure(stack: Stack, cookie: str, reporter: Reporter) -> list[list[float]]:
    """Connect the viewers, send the reports, return each viewer's delays."""
    delays: list[list[float]] = [[] for _ in range(VIEWERS)]
    until_s = time.time() + 8 + REPORTS * EVERY_S
    viewers = [asyncio.create_task(view(stack, cookie, reporter, own, until_s)) for own in delays]
    await asyncio.sleep(4)
    for index in range(1, REPORTS + 1):
        reporter.report(index)
        await asyncio.sleep(EVERY_S)
    await asyncio.gather(*viewers)
    return delays


def add_server(stack: Stack) -> dict[str, Any]:
    """Register a server for the reporter."""
    import os
    import subprocess
    import sys

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
            delays = asyncio.run(measure(stack, session_cookie(stack), reporter))
        finally:
            stack.destroy()
    everything = [delay for own in delays for delay in own]
    return {
        "viewers": VIEWERS,
        "reports": REPORTS,
        "values_seen_of_sent": round(len(everything) / (VIEWERS * REPORTS), 3),
        "delay_p50_s": round(percentile(everything, 0.5), 4),
        "delay_p99_s": round(percentile(everything, 0.99), 4),
        "target_p99_s": TARGET_P99_S,
    }
