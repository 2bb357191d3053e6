"""What commands import before they do anything: each library that is not needed costs every call its start."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("processes")

ROOT = Path(__file__).resolve().parents[3]
# What the product needs and a simulation does not.
PRODUCT = {
    *("scheduler.models", "scheduler.services", "scheduler.live", "frontend", "clusterweb.settings", "agents"),
    *("django.db.models", "django.urls", "django.forms", "django.contrib", "rest_framework", "channels", "celery"),
    *("structlog", "environ"),
}
# What some simulations need: cluster files, bars on a terminal, solvers, reports, other formats.
LATER = {"yaml", "tqdm", "pulp", "plotly", "pyarrow"}


def imported(state: Path, *arguments: str) -> set[str]:
    """Return the modules that a command imported by ``import`` from its start to its end, in a process of its own."""
    environment = {"PATH": os.environ["PATH"], "VAR_DIR": str(state)}
    command = [sys.executable, "-X", "importtime", *arguments]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment, timeout=300)
    assert ended.returncode == 0, ended.stderr[-2000:]
    lines = [line for line in ended.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip() for line in lines}


def unwanted(modules: set[str], packages: set[str]) -> set[str]:
    """Return the modules that are in one of the packages."""
    return {name for name in modules if any(name == one or name.startswith(f"{one}.") for one in packages)}


def test_a_simulation_starts_without_the_product(tmp_path: Path) -> None:
    """Neither models nor routes are read, and no library that this call does not use."""
    trace = "fixtures/traces/gavel_small_test.trace"
    modules = imported(tmp_path, "manage.py", "simulate", trace, "--policy", "fifo", "--json", "-")
    assert {"numpy", "scheduler.simulator.replay.engine"} <= modules
    assert not unwanted(modules, PRODUCT | LATER)


def test_the_command_of_users_starts_without_the_server(tmp_path: Path) -> None:
    """``clusterweb`` speaks HTTP: it needs neither Django nor the scheduler's arrays."""
    modules = imported(tmp_path, "-m", "clusterweb.cli", "--help")
    assert "clusterweb.cli.main" in modules
    assert not unwanted(modules, PRODUCT | LATER | {"django", "numpy", "scheduler"})


def test_other_commands_start_the_product(tmp_path: Path) -> None:
    """The check above can fail: a command that reads the database imports what it looks for."""
    assert unwanted(imported(tmp_path, "manage.py", "migrate", "--help"), PRODUCT) >= {
        "scheduler.models.job",
        "structlog",
    }
