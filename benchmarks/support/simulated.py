"""Simulated servers beside a product that runs, in processes that are not counted to it."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator

from tests.support.e2e.stack import ROOT, Stack

A_PROCESS = 100  # servers


@contextlib.contextmanager
def simulated(stack: Stack, servers: int, *, slots: int, jobs: int) -> Iterator[None]:
    """Run simulated servers beside the product, in processes that are not counted to it, and submit so many jobs."""
    environ = {**os.environ, **stack.environment, "VAR_DIR": str(stack.var_dir)}
    environ |= {"DJANGO_SETTINGS_MODULE": "clusterweb.settings", "REDIS_URL": _broker_of(stack)}
    command = [sys.executable, "-m", "benchmarks.support.many_servers", str(servers), str(slots), str(jobs)]
    made = subprocess.run(command, cwd=ROOT, env=environ, check=True, stdout=subprocess.PIPE)
    paths: list[str] = json.loads(made.stdout)
    runs = [
        subprocess.Popen(
            [sys.executable, "-m", "agents.simulated.run", *paths[first : first + A_PROCESS]], cwd=ROOT, env=environ
        )
        for first in range(0, servers, A_PROCESS)
    ]
    try:
        yield
    finally:
        for run in runs:
            run.terminate()
        for run in runs:
            run.wait()


def _broker_of(stack: Stack) -> str:
    agent = json.loads((stack.var_dir / "agents" / "server-01.json").read_text())
    return str(agent["redis_url"])
