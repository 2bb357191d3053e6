"""How long a real agent takes from a decision to the first step of a job, against what a launch cannot do without.

``benchmarks.runtime launches`` gives the seconds; here each launch is held against another of the same moments, so that
it holds on a busy machine too.
"""

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

from tests.support.agents.launches import PLAIN, TRAINING, launch_s
from tests.support.agents.server import AgentServer

REPEATS = 3
# An agent, a supervisor and the job itself have a turn each; a poll or a wait would cost many more.
MOST_INTERPRETERS = 12


def interpreter_s() -> float:
    """Return how long Python takes to start, import the runtime and end."""
    began_s = time.monotonic()
    subprocess.run([sys.executable, "-c", "import agents.runtime"], check=True)
    return time.monotonic() - began_s


def test_launch_takes_a_few_interpreters_and_none_in_a_process_that_waits(tmp_path: Path) -> None:
    """Best of three each: with torch imported ahead it is sooner there than a script without; cold is far behind."""
    server = AgentServer(tmp_path)
    server.start()
    try:
        cold_s = launch_s(server, TRAINING, is_warm=False)
        plain = [(launch_s(server, PLAIN, is_warm=False), interpreter_s()) for _ in range(REPEATS)]
    finally:
        server.end()
    server = AgentServer(tmp_path / "warm")
    server.config = replace(server.config, warm_processes=1)
    server.start()
    try:
        warm_s = min(launch_s(server, TRAINING, is_warm=True) for _ in range(REPEATS))
    finally:
        server.end()

    plain_s, least_s = (min(times) for times in zip(*plain, strict=True))
    assert plain_s <= MOST_INTERPRETERS * least_s, plain
    assert warm_s < plain_s < cold_s, (warm_s, plain_s, cold_s)
    assert warm_s <= cold_s / 5
