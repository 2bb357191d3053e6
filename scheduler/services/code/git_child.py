"""Fetches one commit in a process of its own, ``python -m scheduler.services.code.git_child TASK``.

Task and answer are those of ``archive_child``; the key, if there is one, comes by standard input. ``git`` speaks the
protocol: nothing is checked out, no hook, submodule, filter or credential helper runs, no redirect is followed, and it
connects to the address that was checked and to no other. Files are read out of the commit entry by entry and pass the
checks of archives. Held right by ``tests/integration/api/code/test_git.py``.
"""

import base64
import io
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from agents.protocol.code import CodeLimits, CodeManifest, CodeRefused, shown_name, size_shown
from clusterweb.config.children import child_environment
from scheduler.services.code.archive_child import NO_ROOM, answer_of, limited_task
from scheduler.services.code.archive_reading import Entry, entries_unpack

# The first release that connects to an address of ours instead of looking the name up again.
LEAST_VERSION = (2, 37)
MOST_SAID = 16 * 1024
_KINDS = {"120000": "a link", "160000": "a submodule"}
# What git says, and what to tell the user; the first that is found.
_SAID: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (("No space left", "Disk quota"), NO_ROOM, ""),
    (
        ("Authentication failed", "could not read Username", "terminal prompts disabled", "error: 401", "error: 403"),
        "key",
        "{host} does not let everybody read this repository, or refuses the key. Name a secret that holds a token: "
        "key: {{secret: deploy}}.",
    ),
    (("not found", "error: 404"), "address", "{host} has no such repository, or shows it to nobody without a key."),
    (
        ("not our ref", "unadvertised object", "couldn't find remote ref", "upload-pack: not our"),
        "commit",
        "{host} has no commit {commit} here that it gives out. Is it pushed?",
    ),
    (("redirect", "error: 30"), "address", "{host} sends on to another address. Write the one that it sends to."),
    (("Out of memory", "out of memory", "malloc"), "size", "Fetching the commit takes too much memory."),
    (("certificate", "SSL"), "address", "The certificate of {host} was not accepted."),
    (("dumb http", "does not support shallow"), "address", "{host} is too old: it cannot give out one commit alone."),
)
_TOO_LARGE = "The commit takes more than {most} as git packs it."
_FAILED = "{host} did not answer as a repository does: {last}"


def main() -> int:
    """Fetch the commit of the task, within limits."""
    task = limited_task()
    key = sys.stdin.buffer.read().decode()
    sys.stdout.write(json.dumps(answer_of(task, lambda target, limits: fetch(task, key, target, limits))) + "\n")
    return 0


def fetch(task: Mapping[str, Any], key: str, target: Path, limits: CodeLimits) -> CodeManifest:  # JSON of ours
    """Write the files of a commit into ``target`` and return the manifest. Raises CodeRefused."""
    git = _Git(Path(task["work"]), task, key, most_bytes=limits.num_bytes)
    git.fetch()
    entries = git.entries()
    try:
        return CodeManifest.of(entries_unpack(entries, target, limits), limits)
    finally:
        entries.close()


class _Git:
    """One repository that holds one commit."""

    def __init__(self, work: Path, task: Mapping[str, Any], key: str, *, most_bytes: int) -> None:
        self._task, self._work, self._repo = task, work, work / "repo.git"
        self._most_bytes = most_bytes
        self._words = {"host": task["host"], "commit": task["commit"][:12], "most": size_shown(most_bytes)}
        self._environment = _environment(work, task, key)

    def fetch(self) -> None:
        """Bring the commit alone, without its past."""
        self._refuse_old()
        object_format = "sha1" if len(self._task["commit"]) == 40 else "sha256"
        self._run("init", "--quiet", "--bare", "--template=", f"--object-format={object_format}", str(self._repo))
        options = ("--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--no-auto-maintenance")
        self._run("fetch", *options, "--no-write-fetch-head", "--", self._task["url"], self._task["commit"])

    def entries(self) -> Generator[Entry]:
        """Yield the files of the folder; a file must be read before the next one is asked for."""
        tree = f"{self._task['commit']}:{self._task['subdir']}"
        if self._run("cat-file", "-t", self._task["commit"]).strip() != b"commit":
            raise CodeRefused("commit", f"{self._words['commit']} is not a commit.")
        if self._run("cat-file", "-t", tree, missing=b"none").strip() != b"tree":
            raise CodeRefused("subdir", f"The commit has no folder {shown_name(self._task['subdir'])}.")
        with self._start("ls-tree", "-r", "-z", tree) as listing, self._start("cat-file", "--batch") as blobs:
            assert listing.stdout
            assert blobs.stdin
            assert blobs.stdout
            try:
                for line in _until_nul(listing.stdout):
                    facts, _, name = line.partition(b"\t")
                    mode, _, blob = facts.decode().split(" ")
                    yield Entry(
                        path=name.decode("utf-8", "surrogateescape"),
                        is_executable=mode == "100755",
                        odd=_KINDS.get(mode, ""),
                        open=_Opened(blobs.stdin, blobs.stdout, blob),
                    )
                if listing.wait():  # else a folder of which files are missing would be kept
                    raise CodeRefused("shape", "The commit is damaged or too large: its files cannot be listed.")
            finally:
                listing.kill()
                blobs.kill()

    def _refuse_old(self) -> None:
        found = re.search(rb"(\d+)\.(\d+)", self._run("--version", here=False))
        if found is None or (int(found[1]), int(found[2])) < LEAST_VERSION:
            least = ".".join(map(str, LEAST_VERSION))
            raise CodeRefused("git", f"The git of this server is too old. An admin installs {least} or newer.")

    def _run(self, *words: str, missing: bytes | None = None, here: bool = True) -> bytes:
        with self._start(*words, here=here and words[0] != "init") as process:
            assert process.stdin
            assert process.stdout
            assert process.stderr
            process.stdin.close()
            said = bytearray()
            reader = threading.Thread(target=_read_some, args=(process.stderr, said))
            reader.start()
            answer = process.stdout.read(MOST_SAID)
            reader.join()
        if process.returncode == 0:
            return answer
        if missing is not None:
            return missing
        raise self._refused(said.decode("utf-8", "replace"))

    def _refused(self, said: str) -> CodeRefused:
        packs = (self._repo / "objects" / "pack").glob("*")
        if any(path.stat().st_size >= self._most_bytes for path in packs):  # the kernel let it write no more
            return CodeRefused("size", _TOO_LARGE.format(**self._words))
        for marks, code, sentence in _SAID:
            if any(mark in said for mark in marks):
                return CodeRefused(code, sentence.format(**self._words))
        lines = [line.strip() for line in said.splitlines() if line.strip()]
        last = shown_name(lines[-1] if lines else "nothing at all")
        return CodeRefused("address", _FAILED.format(**self._words, last=last))

    def _start(self, *words: str, here: bool = True) -> "subprocess.Popen[bytes]":
        try:
            return subprocess.Popen(  # noqa: S603  (words of ours; address, commit and folder are checked)
                ["git", *(["--git-dir", str(self._repo)] if here else []), *words],  # noqa: S607  (as PATH has it)
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE if words[0] not in ("ls-tree", "cat-file") or "-t" in words else None,
                cwd=self._work,
                env=self._environment,
            )
        except FileNotFoundError:
            raise CodeRefused("git", "This server has no git. An admin installs it.") from None


class _Opened:
    """Opens one content; only the latest one may be read."""

    def __init__(self, ask: IO[bytes], answer: IO[bytes], blob: str) -> None:
        self._ask, self._answer, self._blob = ask, answer, blob

    def __call__(self) -> IO[bytes]:
        """Return the content."""
        self._ask.write(self._blob.encode() + b"\n")
        self._ask.flush()
        facts = self._answer.readline(200).split()
        if len(facts) != 3 or facts[1] != b"blob":
            raise CodeRefused("shape", "The commit is damaged: a file of it is missing.")
        size = int(facts[2])
        if not size:
            self._answer.read(1)  # the line end
        return io.BufferedReader(_Content(self._answer, size))


class _Content(io.RawIOBase):
    """So many bytes of what ``git cat-file --batch`` answers, and the line end behind them."""

    def __init__(self, source: IO[bytes], size: int) -> None:
        self._source, self._left = source, size

    def readable(self) -> bool:
        """Return that it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:  # any buffer
        """Read some of it."""
        chunk = self._source.read(min(len(buffer), self._left))
        buffer[: len(chunk)] = chunk
        if self._left and not chunk:
            raise EOFError
        self._left -= len(chunk)
        if chunk and not self._left:
            self._source.read(1)
        return len(chunk)


def _until_nul(source: IO[bytes]) -> Iterator[bytes]:
    rest = b""
    while chunk := source.read(64 * 1024):
        *lines, rest = (rest + chunk).split(b"\0")
        yield from lines


def _read_some(source: IO[bytes], said: bytearray) -> None:
    """Read to the end and keep the end of it."""
    while chunk := source.read(4096):
        said += chunk
        del said[:-MOST_SAID]


def _environment(work: Path, task: Mapping[str, Any], key: str) -> dict[str, str]:
    """Return the environment of git: no settings but these, no questions, one way to talk, one address."""
    settings = {
        "http.followRedirects": "false",
        "http.curloptResolve": task["resolve"],
        "http.proxy": "",
        "http.lowSpeedLimit": "1000",
        "http.lowSpeedTime": "20",
        "protocol.version": "2",
        "credential.helper": "",
        "core.askPass": "",
        "core.hooksPath": os.devnull,
        "core.bigFileThreshold": "16m",
        "core.packedGitWindowSize": "32m",
        "core.packedGitLimit": "128m",
        "fetch.unpackLimit": "1",
        "pack.threads": "1",
        "transfer.bundleURI": "false",
        "gc.auto": "0",
        "safe.directory": "*",
    }
    if key:
        pair = key if ":" in key else f"git:{key}"
        settings["http.extraHeader"] = f"Authorization: Basic {base64.b64encode(pair.encode()).decode()}"
    kept = {name: value for name, value in child_environment().items() if name in ("PATH", "LD_LIBRARY_PATH", "TMPDIR")}
    numbered = {f"GIT_CONFIG_KEY_{at}": name for at, name in enumerate(settings)}
    numbered |= {f"GIT_CONFIG_VALUE_{at}": value for at, value in enumerate(settings.values())}
    return {
        **kept,
        **numbered,
        "GIT_CONFIG_COUNT": str(len(settings)),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": task["url"].partition(":")[0],
        "GIT_NO_REPLACE_OBJECTS": "1",
        "HOME": str(work),
        "LC_ALL": "C",
    }


if __name__ == "__main__":
    sys.exit(main())
