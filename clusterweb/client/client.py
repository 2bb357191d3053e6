"""Submit jobs and follow them, from a program; the command does the same by the same calls.

    from clusterweb.client import Client

    client = Client()  # CLUSTERWEB_URL and CLUSTERWEB_TOKEN, or what ``clusterweb login`` stored
    job = client.submit({"name": "resnet", "queue": "vision", "command": ["python", "train.py"]}, folder=".")
    for text in client.logs(job, follow=True):
        print(text, end="")
    assert client.wait(job)["state"] == "completed"

What has no call of its own here is reached by ``get``, ``post`` and the others of ``Rest``.
"""

import json
import time
import uuid
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any, Literal

from clusterweb.client.account import Account, read_account
from clusterweb.client.errors import CommandError
from clusterweb.client.folders.folder import named_folder
from clusterweb.client.folders.sending import Tell, folder_send
from clusterweb.client.rest import Rest
from clusterweb.client.rows import DryRun, JobAnswer, JobLine, LogPiece

ENDED = frozenset({"completed", "failed", "cancelled"})
FIRST_LOG = "1-0"  # the begin of the first attempt's log
_LOOK_S, _LONGEST_LOOK_S = 0.5, 5.0

# A spec: as a map, as the text of YAML or JSON, or the path of a file with it.
Spec = Mapping[str, Any] | str | bytes | Path
# A job: its id, its number, J- and its number, or an answer about it.
Named = str | int | JobLine
Action = Literal["cancel", "suspend", "resume", "restore"]


class Client(Rest):
    """One user on one server. Every call raises ServerRefused when the server says no, CommandError for the rest."""

    def __init__(self, account: Account | None = None) -> None:
        """Use an account; None = that of the environment, or what ``clusterweb login`` stored."""
        super().__init__(read_account() if account is None else account)

    def submit(
        self,
        spec: Spec,
        *,
        folder: str | Path | None = None,
        files: Mapping[str, bytes] | None = None,
        tell: Tell | None = None,
        key: str = "",
    ) -> JobAnswer:
        """Submit a job, and return it.

        Args:
            spec: What runs, what it needs, where it waits.
            folder: Sent with it, as ``clusterweb submit FOLDER`` does; None = the one in ``code: {dir: path}``, if any.
            files: Small texts for its working directory, by name.
            tell: Called while a folder is sent.
            key: The same for a submit that is repeated within a day: it is the job of the first time again.
        """
        answer: JobAnswer = self._submit(spec, folder, files, tell, is_dry=False, key=key)
        return answer

    def preview(
        self,
        spec: Spec,
        *,
        folder: str | Path | None = None,
        files: Mapping[str, bytes] | None = None,
        tell: Tell | None = None,
    ) -> DryRun:
        """Return where and when a job would start; of it nothing is stored but the contents of the folder."""
        answer: DryRun = self._submit(spec, folder, files, tell, is_dry=True)
        return answer

    def job(self, job: Named) -> JobAnswer:
        """Return a job as it is now."""
        answer: JobAnswer = self.get(f"jobs/{_name(job)}")
        return answer

    def act(self, job: Named, action: Action) -> JobAnswer:
        """Cancel, suspend, resume or restore a job, and return it."""
        answer: JobAnswer = self.post(f"jobs/{_name(job)}/{action}")
        return answer

    def wait(self, job: Named, *, states: AbstractSet[str] = ENDED, timeout_s: float | None = None) -> JobAnswer:
        """Return a job once it is in one of the states, or has ended. Raises TimeoutError."""
        end_s = None if timeout_s is None else time.monotonic() + timeout_s
        look_s = _LOOK_S
        while True:
            answer = self.job(job)
            if answer["state"] in ENDED or answer["state"] in states:
                return answer
            if end_s is not None and time.monotonic() >= end_s:
                raise TimeoutError(f"J-{answer['number']} is {answer['state']} after {timeout_s:g} s")
            time.sleep(look_s if end_s is None else min(look_s, max(0.0, end_s - time.monotonic())))
            look_s = min(_LONGEST_LOOK_S, look_s * 1.5)

    def log(self, job: Named, *, tail: int = 1000, attempt: int | None = None, rank: int | None = None) -> LogPiece:
        """Return the end of a log: of the newest attempt, or of one; of a gang, of the process with this number."""
        piece: LogPiece = self.get(f"jobs/{_name(job)}/logs", tail=tail, attempt=attempt, rank=rank)
        return piece

    def follow(self, job: Named, *, since: str = FIRST_LOG, rank: int | None = None) -> Iterator[str]:
        """Yield pieces of a log as it grows, over all attempts, until the job has ended."""
        for kind, data in self.log_events(str(_name(job)), since=since, rank=rank):
            if kind == "log":
                yield data["text"]

    def logs(
        self,
        job: Named,
        *,
        follow: bool = False,
        tail: int = 1000,
        attempt: int | None = None,
        rank: int | None = None,
    ) -> Iterator[str]:
        """Yield the end of a log and, with ``follow``, what comes after it until the job has ended."""
        piece = self.log(job, tail=tail, attempt=attempt, rank=rank)
        yield piece["text"]
        if follow:
            yield from self.follow(job, since=place_after(piece), rank=rank)

    def _submit(
        self,
        spec: Spec,
        folder: str | Path | None,
        files: Mapping[str, bytes] | None,
        tell: Tell | None,
        *,
        is_dry: bool,
        key: str = "",
    ) -> Any:  # the answer, whose shape the caller knows
        text, beside = _text_of(spec)
        sent = named_folder(text, beside) if folder is None else Path(folder)
        code = "" if sent is None else folder_send(self, sent, tell)["manifest"]
        body, content_type = (text, "application/yaml") if not (files or code) else _form(text, files or {}, code)
        return self.post("jobs", body, content_type=content_type, key=key, dry_run="true" if is_dry else None)


def place_after(piece: LogPiece) -> str:
    """Return where a log goes on after a piece of it."""
    return f"{piece['attempt'] or 1}-{piece['end_offset']}"


def _name(job: Named) -> str | int:
    return job if isinstance(job, str | int) else job["id"]


def _text_of(spec: Spec) -> tuple[bytes, Path]:
    """Return the text of a spec, and the folder from which the paths in it count."""
    if isinstance(spec, Path):
        try:
            return spec.read_bytes(), spec.parent
        except OSError as error:
            raise CommandError(f"{spec}: {error.strerror}.") from None
    if isinstance(spec, Mapping):
        spec = json.dumps({"apiVersion": "v1", **spec})
    return (spec.encode() if isinstance(spec, str) else spec), Path.cwd()


def _form(spec: bytes, files: Mapping[str, bytes], code: str) -> tuple[bytes, str]:
    """Return a form with the spec, the files and the manifest of a sent folder, and its content type."""
    boundary = uuid.uuid4().hex
    parts = [("spec", "spec.yaml", spec), *(("file", name, content) for name, content in files.items())]
    body = b""
    if code:
        body += f'--{boundary}\r\nContent-Disposition: form-data; name="code"\r\n\r\n{code}\r\n'.encode()
    for field, name, content in parts:
        quoted = name.replace("\\", "\\\\").replace('"', '\\"')
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="{field}"; filename="{quoted}"\r\n\r\n'
        body += head.encode() + content + b"\r\n"
    return body + f"--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"
