"""Measure a what-if over a month: time from the request to the table, and how steadily progress is reported.

The whole product runs as a user starts it: the scenario is posted by REST, the simulations worker makes the runs in
processes of their own over the embedded database, and progress is read where a page reads it, from the WebSocket.
"""

import asyncio
import http.cookiejar
import json
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import websockets

from benchmarks.bench_pages import measured_apart
from tests.support.e2e.stack import ROOT, Stack

QUESTION = "Seconds for four variants of a 30,000-job month on this machine, and between two values of progress"
TARGET_S, TARGET_GAP_S = 60.0, 1.0
NUM_JOBS = 30_000
# Each month asks for 95 to 97 % of the GPU time of its cluster: Philly's own size for the generated one.
SERVERS = {"generated": 313, "philly_month": 64, "philly_policies": 64}
MECHANISMS = [
    {"policy": "fifo", "mechanism": "proportional"},
    {"policy": "las", "mechanism": "proportional"},
    {"policy": "srtf", "mechanism": "tune"},
    {"policy": "las", "mechanism": "tune"},
]
POLICIES = [{"policy": policy, "mechanism": "proportional"} for policy in ("las", "srtf", "ftf", "fifo")]
VARIANTS = {"generated": MECHANISMS, "philly_month": MECHANISMS, "philly_policies": POLICIES}
MONTH = ROOT / "fixtures" / "traces" / "philly_2017-10.csv.gz"
ROUND_S = 60.0
GIVE_UP_S = 170.0

Json = dict[str, Any]  # what the API takes and gives


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


def cluster(servers: int) -> Json:
    """Return servers of 8 GPUs."""
    return {"servers": servers, "gpus": 8, "cpus": 24, "memory_gb": 500}


async def follow(stack: Stack, cookie: str, scenario_id: str, begun_s: float) -> list[tuple[float, Json]]:
    """Return (seconds since it was asked, progress) of each frame until the scenario has ended."""
    url = f"{stack.url.replace('http', 'ws')}/ws/live?groups=scenario.{scenario_id}"
    frames: list[tuple[float, Json]] = []
    async with websockets.connect(url, additional_headers={"Cookie": cookie, "Origin": stack.url}) as socket:
        while not frames or frames[-1][1]["state"] in ("queued", "running"):
            frame = json.loads(await asyncio.wait_for(socket.recv(), timeout=GIVE_UP_S))
            if frame["kind"] == "scenario":
                frames.append((time.monotonic() - begun_s, frame["data"]))
    return frames


def gaps(frames: list[tuple[float, Json]]) -> tuple[float, float]:
    """Return the longest times between two frames, and between two frames that tell different shares."""
    told = [0.0, *(at_s for at_s, _ in frames)]
    moved, last = [0.0], None
    for at_s, progress in frames:
        if progress["frac"] != last:
            moved.append(at_s)
            last = progress["frac"]
    return (
        max(later - at_s for at_s, later in pairwise(told)),
        max(later - at_s for at_s, later in pairwise(moved)),
    )


def measure(stack: Stack, cookie: str, start: Mapping[str, object], variants: Sequence[Json]) -> Json:
    """Ask, follow, read the result."""
    client = stack.client("admin")
    question = {"name": "A month", "start": start, "variants": variants, "seeds": [1]}
    begun_s = time.monotonic()
    asked = client.call("POST", "/api/v1/whatif", question)
    assert asked.status == 202, asked.text
    frames = asyncio.run(follow(stack, cookie, asked.json["id"], begun_s))
    done = client.get(f"/api/v1/whatif/{asked.json['id']}")
    assert done["state"] == "completed", done["error"]
    runs = [client.get(f"/api/v1/whatif/{done['id']}/runs/{variant}/1") for variant in range(len(variants))]
    page_s = time.monotonic()
    told_s, moved_s = gaps(frames)
    return {
        "jobs": runs[0]["num_jobs"],
        "wall_s": round(frames[-1][0], 2),
        "first_figures_s": round(next(at_s for at_s, told in frames if any(run["early"] for run in told["runs"])), 2),
        "frames": len(frames),
        "longest_gap_between_frames_s": round(told_s, 2),
        "longest_gap_between_values_s": round(moved_s, 2),
        "result_read_s": round(time.monotonic() - page_s, 3),
        "cpu_s": {
            variant["name"]: {part: round(cost_s, 2) for part, cost_s in run["costs"].items()}
            for variant, run in zip(done["variants"], runs, strict=True)
        },
        "peak_rss_mb": max(round(run["summary"]["peak_rss_bytes"] / 2**20) for run in runs),
    }


def upload(stack: Stack) -> str:
    """Upload the shipped month and return its id."""
    answer = stack.client("admin").call(
        "POST",
        f"/api/v1/whatif/traces?name={MONTH.name}",
        MONTH.read_bytes(),
        headers={"Content-Type": "application/octet-stream"},
    )
    assert answer.status == 201, answer.text
    return str(answer.json["id"])


def run(name: str) -> Json:
    """Ask about a generated month, or about the first 30,000 jobs of the Philly month that ships."""
    with tempfile.TemporaryDirectory(prefix="clusterweb-bench-") as directory:
        stack = Stack(Path(directory) / "var", ROUND_S="30", LEASE_TTL_S="60", LOST_GRACE_S="30")
        try:
            stack.start()
            cookie = session_cookie(stack)
            start: Json = {"kind": "generator", "text": f"philly?jobs={NUM_JOBS}&load=0.95&queues=14"}
            if name != "generated":
                start = {"kind": "trace", "file": upload(stack), "num_jobs": NUM_JOBS}
            start |= {"cluster": cluster(SERVERS[name]), "round_s": ROUND_S}
            found = measure(stack, cookie, start, VARIANTS[name])
        finally:
            stack.destroy()
    return {
        "variants": len(VARIANTS[name]),
        "servers": SERVERS[name],
        "target_wall_s": TARGET_S,
        "target_gap_s": TARGET_GAP_S,
        **found,
    }


# Seconds that answers about a live cluster may take, by jobs that wait in it.
LIVE_TARGETS_S = {"20": {"preview_s": 2.0, "what_if_s": 5.0}, "2000": {"preview_s": 4.0, "why_s": 0.5}}


def live(waiting: str) -> Json:
    """Ask a cluster in which so many jobs wait what a quota would do, why a gang waits, and which policy is best."""
    with tempfile.TemporaryDirectory(prefix="clusterweb-bench-") as folder:
        found = measured_apart("benchmarks.support.live_answers", folder, ANSWERS_WAITING=waiting)
    return {"waiting": int(waiting), "targets": LIVE_TARGETS_S[waiting], **found}


PARTS = {name: partial(run, name) for name in VARIANTS}
PARTS |= {f"live_{waiting}": partial(live, waiting) for waiting in LIVE_TARGETS_S}
