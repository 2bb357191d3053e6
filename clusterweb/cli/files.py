"""Verbs about the files of jobs."""

import contextlib
import json
import os
import posixpath
import re
import sys
from argparse import Namespace
from collections.abc import Iterator
from datetime import date
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import IO

from clusterweb.cli.jobs import show
from clusterweb.cli.output.text import clock, is_day, size, table
from clusterweb.client.client import Client
from clusterweb.client.errors import CommandError, ServerRefused
from clusterweb.client.rows import FileLine, FolderAnswer, JobAnswer

_PAGE = 1000
_PIECE_BYTES = 1024 * 1024
_TRIES = 5
# What names a job where files may be named as well; a bare number may be a folder.
_JOB = re.compile(r"J-\d+|[0-9A-HJKMNP-TV-Z]{26}", re.IGNORECASE)


def ls(given: Namespace) -> int:
    """List a folder of a job."""
    client = Client()
    rows = list(_rows(client, given.job, given.path))
    if given.output == "json":
        print(json.dumps(rows, indent=2))
    elif rows:
        print(table(("NAME", "SIZE", "CHANGED"), [_line(row) for row in rows]))
    else:
        page: FolderAnswer = client.get(f"jobs/{given.job}/files", path=given.path, limit=1)
        print(page["reason"] or "The folder is empty.", file=sys.stderr)
    return 0


def _rows(client: Client, job: str, path: str) -> Iterator[FileLine]:
    """Yield what lies in a folder of a job, page after page."""
    after = None
    while True:
        page: FolderAnswer = client.get(f"jobs/{job}/files", path=path, limit=_PAGE, after=after)
        yield from page["results"]
        after = page["next"]
        if after is None:
            return


def _line(row: FileLine) -> tuple[str, str, str]:
    mark = {"folder": "/", "link": "@", "other": "?"}.get(row["kind"], "")
    return row["name"] + mark, "" if row["size_bytes"] is None else size(row["size_bytes"]), clock(row["changed_at"])


def get(given: Namespace) -> int:
    """Download one file, or a folder, several of both or all as a zip, beside its name until it is whole."""
    client = Client()
    paths = ["" if path == "." else path for path in map(_normal, given.path)]
    one = paths[0] if len(paths) == 1 else ""
    is_file = bool(one) and _is_file(client, given.job, one)
    of = one.rpartition("/")[2]
    if of in ("", ".."):  # the server says what is wrong with the latter
        of = f"{given.job}-selected" if len(paths) > 1 else given.job
    name = of if is_file else f"{of}.zip"
    source = _pieces_of_file(client, given.job, one) if is_file else _pieces_of_zip(client, given.job, paths)
    if given.to == "-":
        for _, piece in source:
            sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
        return 0
    target = Path(given.to or name)
    if target.is_dir():
        target = target / name
    if target.exists() and not given.force:
        raise CommandError(f"{target} is there already. Choose another name with --to, or say --force.")
    written = _written(source, target)
    print(f"{target}  {size(written)}")
    return 0


def _normal(path: str) -> str:
    """Return a path as the server writes it; ``.`` for the whole directory."""
    return posixpath.normpath(path.strip("/") or ".")


def _is_file(client: Client, job: str, path: str) -> bool:
    """Return whether a path is no folder; what is not there at all is for the server to say."""
    try:
        client.get(f"jobs/{job}/files", path=path, limit=1)
    except ServerRefused as error:
        if error.status != 404:
            raise
        return True
    return False


def _written(source: Iterator[tuple[int, bytes]], target: Path) -> int:
    """Write pieces to a file, which has its name when all are there; return its size."""
    partial = target.with_name(f".{target.name[:200]}.{os.getpid()}.part")
    try:
        with partial.open("wb") as file:
            end = _write_all(source, file)
        partial.replace(target)
    except (ConnectionError, TimeoutError):
        raise CommandError(f"The server does not answer. {target} is not written: try again.") from None
    except OSError as error:
        raise CommandError(f"{target} cannot be written: {error.strerror}. Choose another place with --to.") from None
    finally:
        with contextlib.suppress(OSError):
            partial.unlink()
    return end


def _write_all(source: Iterator[tuple[int, bytes]], file: IO[bytes]) -> int:
    end = 0
    for start, piece in source:
        if start != end:  # the file changed meanwhile and comes anew
            file.seek(start)
            file.truncate()
        file.write(piece)
        end = start + len(piece)
    return end


def _pieces_of_file(client: Client, job: str, path: str) -> Iterator[tuple[int, bytes]]:
    """Yield where a piece begins, and the piece; goes on after a lost connection where it was."""
    at, etag, length = 0, "", None
    for tries_left in range(_TRIES, 0, -1):
        with client.download(f"jobs/{job}/files/{path}", etag=etag, start=at) as answer:
            if answer.status != 206:
                at = 0
            etag, length = answer.headers["ETag"], at + int(answer.headers["Content-Length"])
            for piece in _read(answer):
                yield at, piece
                at += len(piece)
        if at == length:
            return
        if tries_left > 1:
            print(f"The connection was lost at {size(at)}; going on from there.", file=sys.stderr)
    raise CommandError(f"The connection was lost {_TRIES} times. {size(at)} of {size(length or 0)} arrived.")


def _pieces_of_zip(client: Client, job: str, paths: list[str]) -> Iterator[tuple[int, bytes]]:
    at = 0
    with client.download(f"jobs/{job}/archive", path=paths) as answer:
        try:
            while piece := answer.read(_PIECE_BYTES):
                yield at, piece
                at += len(piece)
        except (OSError, HTTPException):
            raise CommandError("The connection was lost. A zip cannot go on from there: begin again.") from None


def _read(answer: HTTPResponse) -> Iterator[bytes]:
    """Yield what arrives, until the end or until the connection breaks."""
    with contextlib.suppress(OSError, HTTPException):
        while piece := answer.read(_PIECE_BYTES):
            yield piece


def remove(given: Namespace) -> int:
    """Remove files of an ended job, or the directories of several, after a question with names and sizes."""
    client = Client()
    paths = [path for path in given.path if not _JOB.fullmatch(path)]
    if not paths:
        return _remove_directories(client, given)
    if len(paths) < len(given.path):
        raise CommandError(f"Name jobs, or files of one job: {paths[0]} is no job. A file named like a job is ./J-13.")
    return _remove_files(client, given, [_normal(path) for path in paths])


def _remove_files(client: Client, given: Namespace, paths: list[str]) -> int:
    """Remove files and folders of one job."""
    job: JobAnswer = client.get(f"jobs/{given.job}")
    if not given.yes and not _is_sure([f"J-{job['number']}  {job['name']}", *(_kept(client, job, p) for p in paths)]):
        return 1
    answer = client.post(f"jobs/{job['id']}/discard", json.dumps({"paths": paths}).encode())
    show(given, answer, f"J-{job['number']}  {', '.join(paths)}: being removed")
    return 0


def _kept(client: Client, job: JobAnswer, path: str) -> str:
    """Return a file or folder as the question names it. Raises ServerRefused, or CommandError where it is not there."""
    above, _, _ = path.rpartition("/")
    found = next((row for row in _rows(client, job["id"], above) if row["path"] == path), None)
    if found is None:
        raise CommandError(f"There is no file {path!r}.")
    return f"{path}/" if found["size_bytes"] is None else f"{path}  {size(found['size_bytes'])}"


def _remove_directories(client: Client, given: Namespace) -> int:
    """Remove the directories of jobs; one that refuses stops no other."""
    jobs: list[JobAnswer] = [client.get(f"jobs/{name}") for name in (given.job, *given.path)]
    if not given.yes and not _is_sure([_directory(job) for job in jobs]):
        return 1
    answers, refused = [], 0
    for job in jobs:
        try:
            answers.append(client.post(f"jobs/{job['id']}/discard"))
        except ServerRefused as error:
            refused += 1
            print(f"J-{job['number']}: {error}", file=sys.stderr)
            continue
        if given.output == "text":
            print(f"J-{job['number']}  its files are being removed", flush=True)
    if given.output == "json":
        print(json.dumps(answers, indent=2), flush=True)
    return 1 if refused else 0


def keep(given: Namespace) -> int:
    """Keep the directory of an ended job longer than its queue does, or only as long again."""
    body: dict[str, object] = {"days": given.days} if given.until is None else {"until": _last_day(given.until)}
    if given.undo:
        body = {"until": None}
    job: JobAnswer = Client().post(f"jobs/{given.job}/keep", json.dumps(body).encode())
    until = job["directory"] and job["directory"]["kept_until"]
    assert until, "for any other job the server refuses"
    show(given, job, f"J-{job['number']}  its files are kept until {clock(until)}")
    return 0


def _last_day(text: str) -> str:
    if not is_day(text):
        raise CommandError(f"--until needs a day, such as --until 2030-11-30, not {text!r}.")
    return date.fromisoformat(text).isoformat()


def _directory(job: JobAnswer) -> str:
    directory = job["directory"]
    kept = size(directory["size_bytes"]) if directory else "no files"
    return f"J-{job['number']}  {job['name']}  {kept}"


def _is_sure(lines: list[str]) -> bool:
    """Ask whether what the lines name may go."""
    if not sys.stdin.isatty():
        raise CommandError("This removes files for good: say --yes where nobody can be asked.")
    print("\n".join(lines), file=sys.stderr)
    return input("Delete these files for good? [y/N] ").strip().lower() in ("y", "yes")
