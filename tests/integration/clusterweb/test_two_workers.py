"""Two web workers beside each other, with one broker and one database, are one product to whoever uses it."""

import asyncio
import http.client
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from urllib.parse import urlencode

import pytest
import websockets
from channels_redis.pubsub import RedisPubSubChannelLayer

from clusterweb.config.env import BASE_DIR
from scheduler.broker import frame_message
from tests.integration.agents.test_broker import Broker
from tests.support.agents.server import wait_for

SET_UP = """
import json
from datetime import UTC, datetime
from django.test import Client
from scheduler.services.accounts.tokens import token_create
from tests.support.rows.factories import member_make, queue_make, server_make
server_make("server-01", gpus=4, last_report_at=datetime.now(UTC))
user = member_make(queue_make("vision"))
browser = Client()
browser.force_login(user)
token = token_create(actor=user, name="t", scopes=["jobs:write"], expires_at=None, at=datetime.now(UTC))[1]
print(json.dumps({"token": token, "session": browser.cookies["sessionid"].value}))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """Two workers: their ports, the broker's address, and what a member of ``vision`` signs in with."""

    ports: tuple[int, int]
    broker: str
    token: str
    session: str


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def product(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    directory = tmp_path_factory.mktemp("workers")
    broker = Broker(directory)
    broker.start()
    url = f"unix://scheduler:schedulerpassword@{broker.socket}"
    # Debug pages take the static files as they lie in the tree.
    environment = {**os.environ, "VAR_DIR": str(directory / "var"), "REDIS_URL": url, "DEBUG": "1"}
    (directory / "var" / "static").mkdir(parents=True)
    workers: list[subprocess.Popen[bytes]] = []
    try:
        for arguments in (["migrate", "-v0"], ["shell", "-v0", "-c", SET_UP]):
            done = subprocess.run(
                [sys.executable, "manage.py", *arguments],
                cwd=BASE_DIR, env=environment, capture_output=True, text=True, timeout=600,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
        ports = (free_port(), free_port())
        for port in ports:
            command = ["-m", "uvicorn", "clusterweb.asgi:application", "--port", str(port), "--no-proxy-headers"]
            workers.append(
                subprocess.Popen([sys.executable, *command, "--log-level", "warning"], cwd=BASE_DIR, env=environment)
            )
        for port in ports:
            wait_for("web worker", lambda port=port: answers(port), within_s=120)  # type: ignore[misc]  # bound now
        yield Product(ports=ports, broker=url, **json.loads(done.stdout.splitlines()[-1]))
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
        broker.client.close()
        broker.kill()


def answers(port: int) -> bool:
    try:
        return ask(port, "GET", "/healthz")[0] == 200
    except OSError:
        return False


def ask(port: int, method: str, path: str, body: str = "", **headers: str) -> tuple[int, dict[str, str], str]:
    """Return status, headers and text of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    try:
        connection.request(method, path, body or None, {name.replace("_", "-"): text for name, text in headers.items()})
        answer = connection.getresponse()
        return answer.status, {name.lower(): text for name, text in answer.getheaders()}, answer.read().decode()
    finally:
        connection.close()


def test_requests_to_either_worker_count_as_one(product: Product) -> None:
    """Twice the workers are not twice the limit."""
    bearer = f"Bearer {product.token}"
    left = [
        int(ask(port, "GET", "/api/v1/me", Authorization=bearer)[1]["ratelimit-remaining"])
        for port in product.ports * 3
    ]
    falls = [before - after for before, after in pairwise(left)]

    assert falls.count(1) >= 4, left  # a minute may end in between


def test_failed_sign_ins_at_one_worker_count_at_the_other(product: Product) -> None:
    """Guessing goes on nowhere, and a forged forwarded address changes nothing."""
    token = "x" * 32
    form = urlencode({"username": "mia", "password": "wrong", "csrfmiddlewaretoken": token})

    def sign_in(port: int, address: str) -> int:
        return ask(
            port, "POST", "/sign-in", form,
            Content_Type="application/x-www-form-urlencoded", Cookie=f"csrftoken={token}", X_Forwarded_For=address,
        )[0]  # fmt: skip

    first, second = product.ports

    assert [sign_in(first, f"203.0.113.{number}") for number in range(5)] == [200] * 5
    assert sign_in(second, "203.0.113.99") == 429


def test_idempotency_key_holds_at_both_workers(product: Product) -> None:
    """A proxy may send the repetition elsewhere; one job is made."""
    body = json.dumps({"apiVersion": "v1", "name": "train", "queue": "vision", "command": ["true"]})
    headers = {"Authorization": f"Bearer {product.token}", "Content_Type": "application/json", "Idempotency_Key": "k-1"}
    (first, _, made), (second, again, kept) = [
        ask(port, "POST", "/api/v1/jobs", body, **headers) for port in product.ports
    ]

    assert (first, second) == (201, 201), made
    assert json.loads(made)["id"] == json.loads(kept)["id"]
    assert again["idempotency-replayed"] == "true"


async def test_frame_reaches_the_sockets_of_both_workers(product: Product) -> None:
    """A session is good at both; what the scheduler sends arrives wherever the page is connected."""

    async def first_frame(port: int, connected: asyncio.Semaphore) -> Any:
        headers = {"Cookie": f"sessionid={product.session}", "Origin": f"http://127.0.0.1:{port}"}
        url = f"ws://127.0.0.1:{port}/ws/live?groups=cluster"
        async with websockets.connect(url, additional_headers=headers, open_timeout=300) as page:
            connected.release()
            return json.loads(await asyncio.wait_for(page.recv(), 300))

    connected = asyncio.Semaphore(0)
    pages = [asyncio.create_task(first_frame(port, connected)) for port in product.ports]
    for _ in pages:
        await asyncio.wait_for(connected.acquire(), 300)
    layer = RedisPubSubChannelLayer(hosts=[product.broker])
    await layer.group_send("cluster", frame_message("cluster", "cluster", {"round": 7}))
    frames = await asyncio.gather(*pages)
    await layer.flush()

    assert frames == [{"kind": "cluster", "data": {"round": 7}}] * 2
