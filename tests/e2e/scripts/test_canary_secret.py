"""A secret with a value that stands nowhere else is searched for everywhere, while a job uses it."""

import asyncio
import base64
import contextlib
import hashlib
import json
import os
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.parse import quote

import psutil
import pytest
import redis
import websockets

from clusterweb.config.broker import socket_path
from tests.support.e2e.stack import RECORDS, ROOT, Client, Stack, wait_for

VALUE = f"canary+{os.urandom(12).hex()}/end"


def in_base64(text: str) -> tuple[bytes, ...]:
    """Return how a text looks within one that is in base64 as a whole, as each message is at the broker."""
    return tuple(base64.b64encode(bytes(offset) + text.encode())[4:-4] for offset in range(3))


FORMS = (VALUE.encode(), quote(VALUE, safe="").encode(), VALUE[7:31].encode(), *in_base64(VALUE))
ROLES = ("admin", "lead", "member", "outsider")
JOB = """
import base64, hashlib, os, sys, time
value = os.environ["WANDB_API_KEY"]
print("has", hashlib.sha256(value.encode()).hexdigest(), flush=True)
print("plain", value, base64.b64encode(value.encode()).decode(), flush=True)
while not os.path.exists(sys.argv[1]): time.sleep(0.05)
raise RuntimeError("refused " + value)
"""


class Recorder(threading.Thread):
    """Keeps every command that the broker is sent."""

    def __init__(self, stack: Stack) -> None:
        super().__init__(daemon=True)
        password = (stack.var_dir / "redis" / "password").read_text().strip()
        self._broker = redis.Redis(unix_socket_path=str(socket_path(stack.var_dir)), password=password)
        self.content: list[str] = []
        self._monitor = self._broker.monitor().__enter__()  # type: ignore[no-untyped-call]  # redis has no types here

    def run(self) -> None:
        """Read until the connection is closed."""
        with contextlib.suppress(redis.RedisError, OSError, ValueError, AttributeError):
            for command in self._monitor.listen():
                self.content.append(f"{command['command']}")

    def end(self) -> str:
        """Return all that was seen."""
        self._monitor.connection.disconnect()
        self.join(timeout=10)
        return "\n".join(self.content)


def hits(content: bytes) -> bool:
    """Return whether a text holds the value in any form."""
    return any(form in content for form in FORMS)


def addresses(var_dir: Path) -> list[str]:
    """Return every GET of REST that needs no argument, or the job's."""
    document = json.loads(
        subprocess.run(
            [sys.executable, "manage.py", "spectacular", "--format", "openapi-json"],
            cwd=ROOT,
            env={**os.environ, "VAR_DIR": str(var_dir), "DJANGO_SETTINGS_MODULE": "clusterweb.settings"},
            capture_output=True,
            check=True,
        ).stdout
    )
    return [path for path, methods in document["paths"].items() if "get" in methods]


def signed_in(stack: Stack, user: str) -> urllib.request.OpenerDirector:
    """Return a browser of one user."""
    cookies = CookieJar()
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(cookies))
    opener.open(f"{stack.url}/sign-in").read()
    token = next(cookie.value for cookie in cookies if cookie.name == "csrftoken")
    form = f"username={user}&password={quote(stack.password(user))}&csrfmiddlewaretoken={token}"
    request = urllib.request.Request(f"{stack.url}/sign-in", data=form.encode(), headers={"Referer": stack.url})
    opener.open(request).read()
    opener.cookies = cookies  # type: ignore[attr-defined]  # for the socket
    return opener


def read(opener: urllib.request.OpenerDirector, url: str) -> bytes:
    """Return what a page answers; an error is an answer too."""
    try:
        with opener.open(url, timeout=120) as answer:
            return bytes(answer.read())
    except urllib.error.HTTPError as error:
        return error.read()


def files_with_the_value(*roots: Path) -> list[str]:
    """Return the files that hold the value; sockets and what vanishes are passed over."""
    found = []
    for root in roots:
        for path in root.rglob("*"):
            with contextlib.suppress(OSError):
                if path.is_file() and not path.is_symlink() and hits(path.read_bytes()):
                    found.append(str(path))
    return found


def processes_with_the_value(stack: Stack) -> list[str]:
    """Return the processes of the product whose arguments or environment hold the value."""
    found = []
    for process in psutil.process_iter():
        for name in ("environ", "cmdline"):
            with contextlib.suppress(OSError):
                if hits(Path(f"/proc/{process.pid}/{name}").read_bytes()):
                    with contextlib.suppress(psutil.Error):
                        found.append(f"{name} {' '.join(process.cmdline())[:80]}")
    return found


class Listener(threading.Thread):
    """A page that listens to the cluster and to one job."""

    def __init__(self, stack: Stack, cookies: str, job_id: str) -> None:
        super().__init__(daemon=True)
        self.frames: list[str] = []
        self.connected, self.ended = threading.Event(), threading.Event()
        self._stack, self._cookies, self._groups = stack, cookies, ["cluster", f"job.{job_id}"]

    def run(self) -> None:
        """Listen until it is told to end."""
        asyncio.run(self._listen())

    async def _listen(self) -> None:
        url = f"{self._stack.url.replace('http', 'ws')}/ws/live?groups={','.join(self._groups)}"
        headers = {"Cookie": self._cookies, "Origin": self._stack.url}
        async with websockets.connect(url, additional_headers=headers, open_timeout=240) as page:
            self.connected.set()
            while not self.ended.is_set():
                with contextlib.suppress(TimeoutError):
                    self.frames.append(str(await asyncio.wait_for(page.recv(), timeout=0.5)))


@pytest.fixture
def recorder(stack: Stack) -> Iterator[Recorder]:
    """The broker's traffic during a test."""
    made = Recorder(stack)
    made.start()
    yield made
    made.end()


def test_value_of_a_secret_is_nowhere_but_in_its_process(stack: Stack, tmp_path: Path, recorder: Recorder) -> None:
    """Set by REST and by the command, used by a job that prints it, fails with it, and is looked at by everybody."""
    member = stack.client("member")
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    env |= {"CLUSTERWEB_URL": stack.url, "CLUSTERWEB_TOKEN": member.token}
    command = [sys.executable, "-m", "clusterweb.cli", "secret", "set", "wandb"]
    said = subprocess.run(command, env=env, input=f"{VALUE}\n", capture_output=True, text=True, timeout=240)
    assert said.returncode == 0, said.stderr
    go = tmp_path / "go"
    job_id = member.submit(
        name="canary",
        queue="vision",
        command=["python", "train.py", str(go)],
        files={"train.py": JOB},
        env={"WANDB_API_KEY": {"secret": "wandb"}},
        retry={"max": 0},
    )
    member.wait_state(job_id, "running")
    log = f"/api/v1/jobs/{job_id}/logs?tail=50"
    plain = {"Accept": "text/plain"}
    digest = hashlib.sha256(VALUE.encode()).hexdigest()
    wait_for("its output", lambda: f"has {digest}" in member.call("GET", log, headers=plain).text)
    holders = processes_with_the_value(stack)
    browser = signed_in(stack, "member")
    cookies = "; ".join(f"{cookie.name}={cookie.value}" for cookie in browser.cookies)  # type: ignore[attr-defined]
    listener = Listener(stack, cookies, job_id)
    listener.start()
    assert listener.connected.wait(timeout=240)
    go.touch()
    job = member.wait_state(job_id, "failed")
    wait_for("the page to be told", lambda: any("failed" in frame for frame in listener.frames))
    listener.ended.set()
    listener.join(timeout=60)

    assert "refused [wandb]" in member.call("GET", log, headers=plain).text
    assert "[wandb]" in json.dumps(member.get(f"/api/v1/jobs/{job_id}/attempts"))
    assert holders, "the process itself has it"
    assert all(holder.startswith("environ") and "train.py" in holder for holder in holders), holders
    traffic = recorder.end()
    assert hits(base64.b64encode(f"x{VALUE}".encode())), "the search finds it within a message"
    assert any(form.decode() in traffic for form in in_base64(job_id)), "its order was recorded"
    assert not hits("\n".join([said.stdout, said.stderr, json.dumps(job), *listener.frames, traffic]).encode())
    assert _answers_with_the_value(stack, job_id, job["number"]) == []
    backup = tmp_path / "canary.backup"
    _manage(stack, "backup", str(backup))
    assert files_with_the_value(stack.var_dir, stack.var_dir.parent, Path(RECORDS.name)) == []
    assert not hits(backup.read_bytes())
    assert processes_with_the_value(stack) == []


def _answers_with_the_value(stack: Stack, job_id: str, number: int) -> list[str]:
    """Ask every route of REST and every page of the job and of secrets, as every role."""
    found = []
    pages = ["", "jobs", "queues", "queues/vision", "queues/vision/secrets", "secrets", "cluster", "rounds", "me"]
    pages += [f"jobs/J-{number}{tab}" for tab in ("", "/why", "/logs", "/metrics", "/placement", "/events")]
    pages += [f"jobs/J-{number}/{tab}" for tab in ("attempts", "profile", "spec", "files")]
    pages += [
        f"jobs/new?clone=J-{number}",
        "admin",
        "admin/audit",
        "webhooks",
        "experiments",
        "whatif",
        "events",
        "search?q=wandb",
    ]
    routes = addresses(stack.var_dir)
    for role in ROLES:
        client = Client(stack.url, stack.client(role).token)
        for route in routes:
            path = route.replace("{job}", job_id).replace("{name}", "vision").replace("{number}", "1")
            if "{" in path or path.endswith("/stream"):
                continue
            if hits(client.call("GET", path).text.encode(errors="surrogateescape")):
                found.append(f"{role} {path}")
        browser = signed_in(stack, role)
        found += [f"{role} /{page}" for page in pages if hits(read(browser, f"{stack.url}/{page}"))]
    assert len(routes) > 20
    return found


def _manage(stack: Stack, *arguments: str) -> None:
    subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env={**os.environ, "VAR_DIR": str(stack.var_dir), "DJANGO_SETTINGS_MODULE": "clusterweb.settings"},
        capture_output=True,
        check=True,
    )
