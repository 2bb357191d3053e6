"""A real git repository behind HTTP on this machine: ``git http-backend`` answers, as on a server of a team."""

import base64
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

_WHO = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.com", "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z"}
_WHO |= {name.replace("AUTHOR", "COMMITTER"): value for name, value in _WHO.items()}
ENVIRONMENT = {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, **_WHO}


@dataclass(slots=True)
class GitServer:
    """Where repositories are served.

    Attributes:
        root: Their folder.
        url: Of the root, without a slash at its end.
        password: What is asked for, as user:password; empty for nothing.
        redirect: Where every request is sent; empty for nowhere.
        asked: Paths of the requests so far.
    """

    root: Path
    url: str = ""
    password: str = ""
    redirect: str = ""
    asked: list[str] = field(default_factory=list)

    @property
    def host(self) -> str:
        """Return host and port."""
        return self.url.partition("//")[2]

    def repository(self, name: str, files: Mapping[str, bytes], *, hashes: str = "sha1") -> str:
        """Make a repository with one commit of these files, and return the commit; ``link:`` begins a link."""
        entries = []
        git(self.root, "init", "-q", "--bare", f"--object-format={hashes}", name)
        repo = self.root / name
        for path, content in files.items():
            mode = "120000" if content.startswith(b"link:") else "755" if path.endswith(".sh") else "644"
            blob = git(repo, "hash-object", "-w", "--stdin", given=content.removeprefix(b"link:"))
            entries.append(f"{mode if mode == '120000' else '100' + mode} {blob}\t{path}")
        return self.commit(name, entries)

    def commit(self, name: str, entries: list[str]) -> str:
        """Commit entries as ``git update-index`` takes them."""
        repo = self.root / name
        index = {"GIT_INDEX_FILE": str(repo / "an-index")}
        git(repo, "update-index", "-z", "--index-info", given="\0".join([*entries, ""]).encode(), more=index)
        return self.commit_tree(name, git(repo, "write-tree", more=index))

    def commit_tree(self, name: str, tree: str) -> str:
        """Commit a tree, and return the commit."""
        repo = self.root / name
        commit = git(repo, "commit-tree", tree, "-m", "a")
        git(repo, "update-ref", "refs/heads/main", commit)
        return commit


def git(where: Path, *words: str, given: bytes = b"", more: Mapping[str, str] | None = None) -> str:
    """Run git and return what it prints."""
    done = subprocess.run(
        ["git", *words], cwd=where, input=given, env={**ENVIRONMENT, **(more or {})}, capture_output=True, check=True
    )
    return done.stdout.decode().strip()


@contextmanager
def git_server(root: Path) -> Iterator[GitServer]:
    """Serve the repositories below a folder."""
    served = GitServer(root)

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Say nothing."""

        def do_GET(self) -> None:
            """Answer by the backend."""
            path, _, query = self.path.partition("?")
            served.asked.append(self.path)
            if served.redirect:
                self._head(302, {"Location": served.redirect + self.path})
                return
            given = self.headers.get("Authorization", "")
            if served.password and given != f"Basic {base64.b64encode(served.password.encode()).decode()}":
                self._head(401, {"WWW-Authenticate": "Basic"})
                return
            done = subprocess.run(
                ["git", "http-backend"],
                input=self.rfile.read(int(self.headers.get("Content-Length") or 0)),
                env={
                    **ENVIRONMENT,
                    "GIT_PROJECT_ROOT": str(served.root),
                    "GIT_HTTP_EXPORT_ALL": "1",
                    "PATH_INFO": path,
                    "QUERY_STRING": query,
                    "REQUEST_METHOD": self.command,
                    "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                    "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                    "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
                },
                capture_output=True,
                check=False,
            )
            head, _, body = done.stdout.partition(b"\r\n\r\n")
            headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
            self._head(int(headers.pop("Status", "200").split()[0]), {**headers, "Content-Length": str(len(body))})
            self.wfile.write(body)

        do_POST = do_GET

        def _head(self, status: int, headers: Mapping[str, str]) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served.url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
