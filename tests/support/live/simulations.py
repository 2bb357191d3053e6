"""Calls of ``manage.py simulate`` for tests of the command."""

import json
from io import StringIO
from pathlib import Path

from django.core.management import call_command

from scheduler.simulator.state.outcome import Summary

ROOT = Path(__file__).resolve().parents[3]
TRACE = str(ROOT / "fixtures/traces/tiresias_60_job.csv")
SMALL = ("--servers", "4", "--gpus", "4", "--cpus", "12", "--memory-gb", "250")
# Above any default, so that a run with these and a run without differ.
BUSY = ("generate:synergy?jobs=60&load=1.5&mixed=1", "--servers", "2", "--round-s", "300")


def simulate(*arguments: str) -> str:
    """Run the command in this process and return what it printed."""
    out = StringIO()
    call_command("simulate", *arguments, stdout=out, stderr=StringIO())
    return out.getvalue()


def figures(*arguments: str) -> dict[str, object]:
    """Run the command and return its JSON."""
    found: dict[str, object] = json.loads(simulate(*arguments, "--json", "-"))
    return found


def stable(run: dict[str, object]) -> dict[str, object]:
    """Return the figures without those of the machine."""
    return {
        key: value for key, value in run.items() if key in set(Summary.__annotations__) - {"cpu_s", "peak_rss_bytes"}
    }
