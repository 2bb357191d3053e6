"""Parts of ``bench_submit``: folders on their way in, zips on their way out, by the client on the whole product."""

import random
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from clusterweb.client.account import Account
from clusterweb.client.client import Client
from clusterweb.client.folders.sending import Sent, folder_send
from tests.support.e2e.scripts import WRITES_TIME
from tests.support.e2e.stack import Stack

FILES, TARGET_SEND_S = 5_000, 10.0
STARTS, TARGET_BESIDE_S = 20, 0.5
ZIP_BYTES = 2 * 10**9
PIECE_BYTES = 4 * 2**20


@contextmanager
def product() -> Iterator[tuple[Stack, Client]]:
    """Yield an idle product, and a client of its member."""
    with tempfile.TemporaryDirectory(prefix="clusterweb-bench-") as directory:
        stack = Stack(Path(directory) / "var", ROUND_S="300", LEASE_TTL_S="30", LOST_GRACE_S="15")
        try:
            stack.start()
            yield stack, Client(Account(url=stack.url, token=stack.client("member").token))
        finally:
            stack.destroy()


def folder_make(root: Path, files: int) -> int:
    """Write a package of small files, each of its own content; return its bytes."""
    random.seed(1)
    num_bytes = 0
    for number in range(files):
        path = root / f"part{number % 50:02}" / f"module_{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        num_bytes += path.write_bytes(random.randbytes(random.randint(200, 8_000)))
    return num_bytes


def folder() -> dict[str, Any]:
    """Send a folder, the same once more, and after a change of one file."""
    with product() as (_, client), tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        found: dict[str, Any] = {"files": FILES, "bytes": folder_make(root, FILES), "target_first_s": TARGET_SEND_S}
        for turn in ("first", "second", "one_changed"):
            if turn == "one_changed":
                (root / "part00" / "module_0.py").write_text("changed = True\n")
            told: list[Sent] = []
            begun_s = time.perf_counter()
            folder_send(client, root, told.append)
            found[f"{turn}_s"] = round(time.perf_counter() - begun_s, 2)
            found[f"{turn}_sent_bytes"] = told[-1].missing_bytes
    return found


def known_folder() -> dict[str, Any]:
    """Start jobs with a folder that was sent before and jobs with one small text, in turn."""
    with product() as (stack, client), tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        folder_make(root, 200)
        (root / "job.py").write_text(WRITES_TIME)
        took_s: dict[str, list[float]] = {"folder": [], "text": []}
        for turn in range(STARTS + 1):  # the first of each warms up
            for kind, more in (("folder", {"folder": root}), ("text", {"files": {"job.py": WRITES_TIME.encode()}})):
                spec = {"name": f"bench-{turn}", "queue": "vision", "command": ["python", "-S", "job.py"]}
                begun_s = time.time()
                job = client.submit(spec, **more)
                client.wait(job)
                started = stack.var_dir / "shared" / "jobs" / job["id"] / "dir" / "started"
                took_s[kind].append(float(started.read_text()) - begun_s)
    known, text = (median(took_s[kind][1:]) for kind in ("folder", "text"))
    return {
        "starts": STARTS,
        "files": 201,
        "folder_p50_s": round(known, 3),
        "text_p50_s": round(text, 3),
        "beside_s": round(known - text, 3),
        "target_beside_s": TARGET_BESIDE_S,
    }


def zip_out() -> dict[str, Any]:
    """Stream the zip of a job that has written 2 GB, and watch the web server."""
    with product() as (stack, client):
        write = f"f = open('model.pt', 'wb'); f.truncate({ZIP_BYTES})"
        job = client.submit({"name": "bench-zip", "queue": "vision", "command": ["python", "-S", "-c", write]})
        client.wait(job)
        address = f"{stack.url}/api/v1/jobs/{job['id']}/archive"
        token = {"Authorization": f"Bearer {stack.client('member').token}"}
        before, most, size = _web_bytes(stack), 0, 0
        begun_s = time.perf_counter()
        with urllib.request.urlopen(urllib.request.Request(address, headers=token), timeout=60) as answer:
            while piece := answer.read(PIECE_BYTES):
                size += len(piece)
                most = max(most, _web_bytes(stack))
        took_s = time.perf_counter() - begun_s
    assert size > ZIP_BYTES
    return {
        "bytes": size,
        "seconds": round(took_s, 2),
        "mb_a_second": round(size / took_s / 1e6),
        "web_rss_before_mb": round(before / 1e6),
        "web_rss_most_mb": round(most / 1e6),
    }


def _web_bytes(stack: Stack) -> int:
    """Return the memory of the web servers."""
    web = [one for one in stack.processes() if "uvicorn" in " ".join(one.cmdline())]
    assert web
    return sum(psutil.Process(one.pid).memory_info().rss for one in web)
