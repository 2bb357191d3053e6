"""All pages over a small database: one light server without workers, for tests that only look at pages.

    python -m tests.browser.site full|empty FOLDER

Fills a database in FOLDER, says in one line of JSON where its pages are, and serves until its input is closed.
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext

from tests.support.e2e.stack import ROOT, free_port
from tests.support.pages.routes import page_patterns

NO_PAGE = {"job-log-download", "admin-audit-file"}  # answers a file
WITHOUT_SIGN_IN = {"sign-in"}
NEEDS_A_QUEUE = {"experiment-new"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A running site.

    Attributes:
        paths: Of every page, by its name.
        cookie: Name and value of what signs an admin in.
        log: What the server says.
    """

    url: str
    paths: dict[str, str]
    cookie: tuple[str, str]
    log: Path

    def context(self, browser: Browser, name: str, **options: Any) -> BrowserContext:  # options of Playwright
        """Return a window in which an admin is signed in, unless the page called ``name`` is for others."""
        context = browser.new_context(**options)
        if name not in WITHOUT_SIGN_IN:
            context.add_cookies([{"name": self.cookie[0], "value": self.cookie[1], "url": self.url}])
        return context


def pages_to_look_at(*, empty: bool) -> list[str]:
    """Return the names of the pages that an admin can read; of an empty cluster those that need nothing."""
    from tests.support.pages.scenes import SCENES
    from tests.support.pages.world import tab_names
    from tests.support.roles.matrix import PAGES

    found = [] if empty else [*SCENES]
    for name, pattern in page_patterns().items():
        status = PAGES.get(f"GET {name}", (200,))[-1]
        is_page = (status == 200 or name in WITHOUT_SIGN_IN) and name not in NO_PAGE
        needs_something = bool(pattern.pattern.converters) or name in NEEDS_A_QUEUE
        if is_page and not (empty and needs_something):
            found += tab_names() if name == "job-tab" else [name]
    return found


@contextmanager
def site_served(kind: str, folder: Path) -> Iterator[Site]:
    """Serve a cluster with something of everything ("full") or one without anything ("empty")."""
    environ = {**os.environ, "VAR_DIR": str(folder / "var"), "PORT": str(free_port())}
    command = [sys.executable, "-m", "tests.browser.site", kind, str(folder)]
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(
            command, cwd=ROOT, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
        ) as process,
    ):
        assert process.stdin
        assert process.stdout
        line = process.stdout.readline()
        assert line, (folder / "log").read_text()[-4000:]
        found = json.loads(line)
        url = f"http://127.0.0.1:{environ['PORT']}"
        yield Site(url=url, paths=found["paths"], cookie=tuple(found["cookie"]), log=folder / "log")
        process.stdin.close()


def main(kind: str, folder: Path) -> None:
    """Fill and serve."""
    import django

    django.setup()

    from django.conf import settings
    from django.contrib.staticfiles.handlers import StaticFilesHandler
    from django.core.management import call_command
    from django.core.servers.basehttp import ThreadedWSGIServer, WSGIRequestHandler
    from django.core.wsgi import get_wsgi_application
    from django.test import Client

    from tests.support.pages.scenes import scene_paths
    from tests.support.pages.world import full_world, page_paths, page_paths_of_nothing
    from tests.support.rows.factories import user_make

    settings.DATABASES["default"]["NAME"] = folder / "site.sqlite3"
    settings.MIGRATION_MODULES = {"scheduler": None}  # tables at once: quicker than by steps
    settings.STORAGES["staticfiles"] = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STATIC_ROOT.mkdir()
    call_command("migrate", run_syncdb=True, verbosity=0)
    if kind == "empty":
        user, paths = user_make("ada", admin=True), page_paths_of_nothing()
    else:
        world = full_world(folder)
        user, paths = world.users["admin"], page_paths(world, "admin") | scene_paths(world)
    client = Client()
    client.force_login(user)
    cookie = client.cookies[settings.SESSION_COOKIE_NAME]
    server = ThreadedWSGIServer(("127.0.0.1", int(os.environ["PORT"])), WSGIRequestHandler)
    server.set_app(StaticFilesHandler(get_wsgi_application()))
    print(json.dumps({"paths": paths, "cookie": [cookie.key, cookie.value]}), flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
