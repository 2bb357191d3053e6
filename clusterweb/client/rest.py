"""HTTP to the REST API: JSON, lists page by page, logs as they grow; a problem becomes an exception."""

import json
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from collections.abc import Iterator, Mapping
from http.client import HTTPException, HTTPMessage, HTTPResponse
from typing import IO, Any, Protocol

from clusterweb.client.account import Account
from clusterweb.client.errors import CommandError, ServerRefused

_TIMEOUT_S = 60.0
_AGAIN_S = (0.2, 1.0, 3.0)

Json = Any  # what json.loads gives


class Pieces(Protocol):
    """A body that is made piece by piece, from its begin each time it is asked for."""

    def __len__(self) -> int:
        """Return its bytes."""

    def __iter__(self) -> Iterator[bytes]:
        """Begin anew."""


Content = bytes | memoryview | Pieces


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Goes nowhere else: a request has the token with it, and urllib would hand it to any other host."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        """Say where the server sends on to. Raises CommandError."""
        raise CommandError(f"{req.host} sends on to {newurl}. Use that address: clusterweb login URL.")


_opener = urllib.request.build_opener(_NoRedirects)


class Rest:
    """One account on one server.

    Attributes:
        device_kinds: What the cluster's devices are, as the last answer said that has sentences about them.
    """

    def __init__(self, account: Account) -> None:
        """Keep the account; nothing is sent yet."""
        self.account = account
        self.device_kinds: list[str] = []

    def get(self, path: str, /, **query: object) -> Json:
        """Return the JSON of a GET."""
        return self._json("GET", path, query=query)

    def post(
        self, path: str, body: bytes = b"", *, content_type: str = "application/json", key: str = "", **query: object
    ) -> Json:
        """Return the JSON of a POST. It is safe to be repeated: the server does once what has one ``key``."""
        headers = {"Content-Type": content_type, "Idempotency-Key": key or str(uuid.uuid4())}
        return self._json("POST", path, query=query, body=body or b"{}", headers=headers)

    def upload(
        self, path: str, content: "Content", *, content_type: str = "application/octet-stream", **query: object
    ) -> Json:
        """Return the JSON of a POST of a file, which is sent piece by piece."""
        headers = {"Content-Type": content_type, "Content-Length": str(len(content))}
        return self._json("POST", path, query=query, body=content, headers=headers)

    def patch(self, path: str, data: Mapping[str, object], *, etag: str) -> Json:
        """Return the JSON of a PATCH of the version with this ETag."""
        headers = {"Content-Type": "application/json", "If-Match": etag}
        return self._json("PATCH", path, body=json.dumps(data).encode(), headers=headers)

    def put(self, path: str, data: Mapping[str, object]) -> Json:
        """Return the JSON of a PUT, which may be repeated."""
        return self._json("PUT", path, body=json.dumps(data).encode(), headers={"Content-Type": "application/json"})

    def delete(self, path: str) -> None:
        """Delete what is at the path."""
        self._open("DELETE", path).close()

    def all(self, path: str, *, most: int, **query: object) -> list[Json]:
        """Return the rows of a list, page after page, at most ``most``."""
        rows: list[Json] = []
        cursor: object = None
        while len(rows) < most:
            page = self.get(path, limit=min(500, most - len(rows)), cursor=cursor, **query)
            rows += page["results"]
            if not page.get("next"):
                break
            following = urllib.parse.parse_qs(urllib.parse.urlsplit(page["next"]).query)
            cursor = following["cursor"][0]
        return rows

    def download(self, path: str, /, *, etag: str = "", start: int = 0, **query: object) -> HTTPResponse:
        """Return the open answer of a GET of bytes: from ``start`` on if the file has the ETag still, else all."""
        headers = {"Range": f"bytes={start}-", "If-Range": etag} if start else {}
        return self._open("GET", path, query=query, headers=headers)

    def log_events(self, job: str, *, since: str, rank: int | None = None) -> Iterator[tuple[str, Json]]:
        """Yield (kind, data) of the log as it grows, until the job has ended; goes on after a lost connection."""
        place = since
        while True:
            try:
                path, headers = f"jobs/{job}/logs/stream", {"Last-Event-ID": place}
                with self._open("GET", path, query={"rank": rank}, headers=headers) as answer:
                    for kind, event_id, data in _events(answer):
                        place = event_id
                        yield kind, data
                        if kind == "end":
                            return
            except (OSError, HTTPException):
                pass  # the server went away in the middle of an answer; the place is known
            time.sleep(_AGAIN_S[1])

    def _json(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, object] | None = None,
        body: "Content | None" = None,
        headers: Mapping[str, str] | None = None,
    ) -> Json:
        for is_last in (not _is_repeatable(method, headers), True):
            with self._open(method, path, query=query, body=body, headers=headers) as answer:
                try:
                    text = answer.read()
                except (OSError, HTTPException) as error:
                    if is_last:
                        raise self._no_answer(error) from None
                    continue
            break
        try:
            data = json.loads(text or b"null")
        except ValueError:
            raise CommandError(
                f"{self.account.url} answers with something that is no JSON. Does a proxy stand before Clusterweb?"
            ) from None
        self.device_kinds = _device_kinds(answer) or self.device_kinds
        if isinstance(data, dict) and (etag := answer.headers.get("ETag")):
            data["etag"] = etag
        return data

    def _open(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, object] | None = None,
        body: "Content | None" = None,
        headers: Mapping[str, str] | None = None,
    ) -> HTTPResponse:
        given = {name: value for name, value in (query or {}).items() if value not in (None, "")}
        url = f"{self.account.url}/api/v1/{urllib.parse.quote(path)}"
        if given:
            url += "?" + urllib.parse.urlencode(given, doseq=True)
        all_headers = {"Authorization": f"Bearer {self.account.token}", **(headers or {})}
        # The scheme was checked when the account was read.
        request = urllib.request.Request(url, data=body, headers=all_headers, method=method)  # noqa: S310
        for wait_s in (*_AGAIN_S, None):
            try:
                answer: HTTPResponse = _opener.open(request, timeout=_TIMEOUT_S)
                return answer
            except urllib.error.HTTPError as error:
                if error.code not in {429, 503} or wait_s is None:
                    raise ServerRefused(error.code, _problem(error), device_kinds=_device_kinds(error)) from None
                time.sleep(min(30.0, float(error.headers.get("Retry-After") or wait_s)))
            except (OSError, HTTPException) as error:
                # Without a connection nothing was done yet; else the answer may have been lost after it was.
                is_undone = isinstance(error, urllib.error.URLError)
                if wait_s is None or not (is_undone or _is_repeatable(method, headers)):
                    raise self._no_answer(error) from None
                time.sleep(wait_s)
        raise AssertionError("the last try returns or raises")

    def _no_answer(self, error: Exception) -> CommandError:
        why = getattr(error, "reason", "") or str(error) or type(error).__name__
        return CommandError(f"{self.account.url} does not answer: {why}")


def _is_repeatable(method: str, headers: Mapping[str, str] | None) -> bool:
    """Return whether a request that is sent again is done once: it reads, or the server knows it by its key."""
    return method == "GET" or "Idempotency-Key" in (headers or {})


def _device_kinds(answer: HTTPResponse | urllib.error.HTTPError) -> list[str]:
    return [kind for kind in (answer.headers.get("Clusterweb-Devices") or "").split(", ") if kind]


def _problem(error: urllib.error.HTTPError) -> dict[str, Any]:
    try:
        data = json.loads(error.read())
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}


def _events(answer: HTTPResponse) -> Iterator[tuple[str, str, Json]]:
    """Yield (kind, id, data) of server-sent events."""
    fields: dict[str, str] = {}
    for raw in answer:
        line = raw.decode("utf-8").rstrip("\r\n")
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif "data" in fields:
            yield fields.get("event", ""), fields.get("id", ""), json.loads(fields["data"])
            fields = {}
