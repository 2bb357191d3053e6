"""The process that builds one environment: starts uv step by step as the jobs' user, confined like a job.

Detached, so that it outlives the agent; the lock of the folder, its standard input, says that it lives. It has one
thread and runs without ``site``, as supervisors do, since it forks what it starts by ``supervisor/child.py``.
"""

import contextlib
import json
import os
import select
import signal
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from agents.environments.measure import bytes_resident, bytes_unshared, bytes_within
from agents.environments.pins import entries, has_hashes, preferences, to_install
from agents.environments.store import MADE, ORDER, STATE, state_json
from agents.environments.uv import base_pins, blames_file, ports_of, sentence_of
from agents.files.atomic import file_system_sync, open_directory, read_at, write_at
from agents.host.job_paths import confinement_of
from agents.host.launch_names import ATTEMPT_MARK
from agents.host.passage import passage_of
from agents.host.tree import signal_tree
from agents.protocol.environments import TAIL_CHARS, EnvironmentReport
from agents.supervisor.child import ChildPlan, StartFailed, become_subreaper, start_child

LOG = "build.log"
LOG_BYTES = 8 * 2**20
LARGEST_FILE_BYTES = 16 * 2**30
TELL_EVERY_S = 0.5
WEIGH_EVERY_S = 2.0
# Packages of one call of uv: it fetches them at the same time, and what is done can be counted between two calls.
BATCH = 4
READS_AT_ONCE = 4  # of output, before the time is looked at again: what is built may print without an end
NICE = 10
_PATH = "/usr/local/bin:/usr/bin:/bin"
# What is importable at the end of the path: the agent's own packages, behind those of the environment.
BASE_FILE = "clusterweb-base.pth"


class BuildFailed(Exception):
    """The environment cannot be built; the text is for the owner of the job.

    Attributes:
        is_passing: The files are not to blame, so that a later try may succeed.
    """

    def __init__(self, detail: str, *, is_passing: bool = True) -> None:
        super().__init__(detail)
        self.is_passing = is_passing


class Build:
    """One build."""

    def __init__(self, path: Path, order: dict[str, Any], *, fd: int) -> None:
        self._path, self._fd, self._order = path, fd, order
        self._uid: int | None = order["uid"]
        self._venv, self._work = path / "venv", path / "work"
        self._cache = Path(order["cache"])
        self._began_s = self._told_s = self._weighed_s = time.monotonic()
        self._cached_before = bytes_unshared(self._cache)
        self._log_fd = os.open(path / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._tail: deque[str] = deque(maxlen=200)
        self._report = EnvironmentReport(digest=order["digest"], ask=order["ask"], state="building")

    def run(self) -> None:
        """Build it, and write down how that ended."""
        try:
            self._folders()
            self._steps()
        except BuildFailed as error:
            self._end(state="failed", detail=str(error), is_passing=error.is_passing)
        except StartFailed as error:
            self._end(state="failed", detail=f"uv could not be started: {error.detail}")
        except OSError as error:
            self._end(state="failed", detail=f"The environment could not be built: {error.strerror or error}.")
        else:
            self._end(state="ready")

    def _steps(self) -> None:
        order, python = self._order, str(self._venv / "bin" / "python")
        self._uv("venv", "--no-project", "--python", order["python"], str(self._venv))
        base = base_pins(order["base"]) if order["base"] else {}
        behind = "import sys; open(sys.argv[1], 'w').write(sys.argv[2])"
        packages = next(self._venv.glob("lib/python*/site-packages"), None)
        if packages is None:
            raise BuildFailed("uv made no environment.")
        self._run(order["python"], "-I", "-S", "-c", behind, str(packages / BASE_FILE), f"{order['base']}\n")
        resolved = self._work / "resolved.txt"
        self._say(f"resolving {' and '.join(order['files'])}")
        if order["kind"] == "lock":
            emits = ("--quiet", "--no-dev", "--no-emit-workspace", "--no-emit-local", "--no-header", "--no-annotate")
            self._uv("export", "--frozen", *emits, "--python", python, "--output-file", str(resolved))
        elif has_hashes(order["files"]["requirements.txt"]):
            # What is not pinned to a hash is refused here, dependencies included; nothing is resolved anew.
            self._uv("pip", "install", "--dry-run", "--require-hashes", "--python", python, "-r", "requirements.txt")
            self._lay("resolved.txt", order["files"]["requirements.txt"])
        else:
            self._lay("resolved.txt", preferences(base))
            plain = ("--no-header", "--no-annotate", "--python", python, "--quiet", "--output-file", str(resolved))
            self._uv("pip", "compile", "requirements.txt", *plain)
        listed = entries(self._told(resolved))
        missing = to_install(listed, base)
        self._say(f"{len(listed)} packages, {len(listed) - len(missing)} of them are on this server already")
        self._install(missing, python)

    def _install(self, missing: Sequence[str], python: str) -> None:
        self._report = replace(self._report, done=0, total=len(missing))
        self._tell()
        for first in range(0, len(missing), BATCH):
            some = missing[first : first + BATCH]
            self._lay("batch.txt", "\n".join(some) + "\n")
            self._uv("pip", "install", "--no-deps", "--python", python, "--requirement", "batch.txt")
            self._report = replace(self._report, done=first + len(some))
            self._tell()

    # Files of the build

    def _folders(self) -> None:
        for path in (self._venv, self._work, self._work / "home", self._work / "tmp", self._cache):
            with contextlib.suppress(FileExistsError):
                os.mkdir(path, 0o755 if path == self._venv else 0o700)
                if self._uid is not None:
                    os.chown(path, self._uid, self._uid, follow_symlinks=False)
        for name, text in self._order["files"].items():
            self._lay(name, text)

    def _lay(self, name: str, text: str) -> None:
        """Write a file for uv, into a folder in which a build may have put anything under that name."""
        fd = open_directory(str(self._work))
        try:
            write_at(fd, name, text.encode(), durable=False)
            if self._uid is not None:
                os.chown(name, self._uid, self._uid, dir_fd=fd, follow_symlinks=False)
        finally:
            os.close(fd)

    def _told(self, path: Path) -> str:
        fd = open_directory(str(self._work))
        try:
            return (read_at(fd, path.name) or b"").decode(errors="replace")
        finally:
            os.close(fd)

    # uv

    def _uv(self, *words: str) -> None:
        self._run(self._order["uv"], *words)

    def _run(self, *argv: str) -> None:
        """Run one command to its end; raise BuildFailed unless it ends well."""
        read_fd, write_fd = os.pipe2(os.O_CLOEXEC)
        work_fd = open_directory(str(self._work))
        try:
            pid = start_child(self._plan(argv, work_fd=work_fd, output_fd=write_fd))
        finally:
            os.close(write_fd)
            os.close(work_fd)
        lines: list[str] = []
        try:
            status = self._follow(pid, read_fd, lines)
        finally:
            os.close(read_fd)
            signal_tree(os.getpid(), signal.SIGKILL)
        if status != 0:
            code = os.waitstatus_to_exitcode(status)
            sentence = sentence_of(lines) or f"uv ended with exit code {code}."
            raise BuildFailed(sentence, is_passing=not blames_file(lines))

    def _plan(self, argv: Sequence[str], *, work_fd: int, output_fd: int) -> ChildPlan:
        own = tuple(os.path.realpath(path) for path in (self._venv, self._work, self._cache))
        allowed = confinement_of(os.environ, own=own, read=(), uid=self._uid)
        ports = ports_of(self._order["settings"])
        return ChildPlan(
            argv=tuple(argv),
            env={
                **self._order["settings"],
                "PATH": _PATH,
                "HOME": str(self._work / "home"),
                "TMPDIR": str(self._work / "tmp"),
                "LANG": "C.UTF-8",
                "NO_COLOR": "1",
                "UV_CACHE_DIR": str(self._cache),
                "UV_NO_CONFIG": "1",
                "UV_NO_PROGRESS": "1",
                "UV_PYTHON_DOWNLOADS": "never",
                ATTEMPT_MARK: self._path.name,
            },
            work_fd=work_fd,
            output_fd=output_fd,
            cpu_ids=(),
            largest_file_bytes=LARGEST_FILE_BYTES,
            uid=self._uid,
            confinement=None if allowed is None else replace(allowed, ports=ports),
            passage={} if self._uid is None else passage_of(os.environ),
            work_path=str(self._work),
        )

    def _follow(self, pid: int, read_fd: int, lines: list[str]) -> int:
        """Take the output of a command into the log until it ends; return its wait status."""
        os.set_blocking(read_fd, False)
        rest, open_fds = b"", [read_fd]
        while True:
            ended, status = _waited(pid)
            select.select(open_fds, [], [], 0.0 if ended else TELL_EVERY_S / 2)
            with contextlib.suppress(BlockingIOError):
                for _ in range(READS_AT_ONCE):
                    chunk = os.read(read_fd, 65536)
                    if not chunk:  # closed by a process that goes on: it would be ready to be read for ever
                        open_fds = []
                        break
                    *whole, rest = (rest + chunk).split(b"\n")
                    for line in whole:
                        lines.append(line.decode(errors="replace"))
                        self._say(lines[-1])
                    del lines[:-500]
                    rest = rest[-4096:]
            if ended:
                if rest:
                    lines.append(rest.decode(errors="replace"))
                    self._say(lines[-1])
                return status
            self._refuse_too_long()
            self._refuse_too_much()
            if time.monotonic() - self._told_s > TELL_EVERY_S:
                self._tell()

    def _refuse_too_long(self) -> None:
        if time.monotonic() - self._began_s > self._order["timeout_s"]:
            signal_tree(os.getpid(), signal.SIGKILL)
            raise BuildFailed(f"The build was ended: it took longer than {self._order['timeout_s'] / 60:g} min.")

    def _refuse_too_much(self) -> None:
        """End the build where it takes more than the admin lets one take; its files are to blame."""
        now_s = time.monotonic()
        if now_s < self._weighed_s:
            return
        memory, disk = self._order["memory_bytes"], self._order["disk_bytes"]
        cached = bytes_unshared(self._cache) - self._cached_before
        for what, used, most, setting in (
            ("memory", bytes_resident(os.getpid()), memory, "ENVIRONMENT_BUILD_MEMORY_GIB"),
            ("disk", bytes_within(self._venv) + bytes_within(self._work) + cached, disk, "ENVIRONMENT_BUILD_DISK_GIB"),
        ):
            if used > most:
                signal_tree(os.getpid(), signal.SIGKILL)
                least = f"more than {most / 2**30:.3g} GiB of {what}"
                detail = f"The build was ended: it took {least}. An admin of the servers sets {setting}."
                raise BuildFailed(detail, is_passing=False)
        # Looking through many files takes its time: no more than a tenth of it goes there.
        self._weighed_s = time.monotonic() + max(WEIGH_EVERY_S, 10 * (time.monotonic() - now_s))

    # What is told

    def _say(self, text: str) -> None:
        line = "".join(letter for letter in text.rstrip() if letter.isprintable() or letter == "\t")[:500]
        self._tail.append(line)
        with contextlib.suppress(OSError):
            if os.fstat(self._log_fd).st_size < LOG_BYTES:
                os.write(self._log_fd, f"{line}\n".encode(errors="replace"))

    def _tell(self, name: str = STATE, *, durable: bool = False) -> None:
        self._told_s = time.monotonic()
        tail = "\n".join(self._tail)[-TAIL_CHARS:]
        self._report = replace(self._report, build_s=round(self._told_s - self._began_s, 3), tail=tail)
        write_at(self._fd, name, json.dumps(state_json(self._report)).encode(), durable=durable)

    def _end(self, *, state: str, detail: str = "", is_passing: bool = True) -> None:
        if state == "failed":
            self._say(detail)
            self._report = replace(self._report, state="failed", detail=detail[:300], is_passing=is_passing)
            with contextlib.suppress(OSError):
                self._tell()
            return
        self._say(f"ready after {time.monotonic() - self._began_s:.1f} s")
        fd = open_directory(str(self._path.parent))
        try:
            told = {"num_bytes": bytes_unshared(self._cache)}
            write_at(fd, f"{self._cache.name}.json", json.dumps(told).encode(), durable=False)
        finally:
            os.close(fd)
        # What uv wrote is written through first: after a power failure the word must not outlive the files.
        file_system_sync(self._fd)
        self._report = replace(self._report, state="ready", num_bytes=bytes_within(self._venv))
        self._tell(MADE, durable=True)


def _waited(pid: int) -> tuple[bool, int]:
    """Reap what has ended; return whether the process itself is among it, and its status."""
    ended, status = os.waitpid(pid, os.WNOHANG)
    return ended == pid, status


def main(path: str) -> NoReturn:
    """Build the environment in a folder."""
    become_subreaper()
    os.nice(NICE)
    fd = open_directory(path)
    Build(Path(path), json.loads(read_at(fd, ORDER) or b"null"), fd=fd).run()
    sys.exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
