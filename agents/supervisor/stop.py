"""Stop every job of a server when the whole product is stopped.

    python -m agents.supervisor.stop --config FILE [--timeout SECONDS]

Each job is asked to checkpoint and stop, as for a preemption; what is left after the timeout is killed. The next agent
reports these attempts as preempted, so the scheduler resumes the jobs.
"""

import argparse
import sys
import time
from dataclasses import dataclass, replace

from agents.config import AgentConfig, config_load
from agents.core.records import CONTROL_FILE, LAUNCH_FILE, STATE_FILE, Control, Durable, Launch, SupervisorState, encode
from agents.executor import NUDGE
from agents.files.server_files import AttemptFiles
from agents.host.process import HostProcesses
from agents.protocol.errors import ConfigInvalid, Malformed
from agents.protocol.ports import Files, Processes, ProcessIdentity

DEFAULT_TIMEOUT_S = 20.0
# Of the timeout: until TERM, and again until KILL. The rest is for killing and writing the last state.
GRACE_FRAC = 0.35
LOOK_S = 0.05
ASK_AGAIN_S = 1.0
SIGKILL = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """An attempt with a live supervisor."""

    attempt_id: str
    supervisor: ProcessIdentity


def running(files: Files, processes: Processes) -> list[Running]:
    """Return the attempts of this server whose supervisor lives."""
    found = []
    content = files.read_own()
    for attempt_id, kept in Durable.parse(content).attempts.items() if content is not None else ():
        state = SupervisorState.parse(files.read(attempt_id, STATE_FILE))
        supervisor = kept or (state.supervisor if state is not None else None)
        if supervisor is not None and processes.alive(supervisor):
            found.append(Running(attempt_id=attempt_id, supervisor=supervisor))
    return found


def ask(attempt: Running, files: Files, processes: Processes, *, grace_s: float) -> None:
    """Tell the supervisor to preempt its job within ``grace_s`` to TERM and again to KILL, seconds."""
    control = Control.parse(files.read(attempt.attempt_id, CONTROL_FILE))
    if control is None:
        content = files.read(attempt.attempt_id, LAUNCH_FILE)
        control = Launch.parse(content).control if content is not None else None
    if control is None:
        return
    wanted = "preempt" if control.wanted in ("run", "park") else control.wanted
    stopping = replace(control, wanted=wanted, grace_s=min(control.grace_s, grace_s))
    files.write(attempt.attempt_id, CONTROL_FILE, encode(stopping))
    processes.signal(attempt.supervisor, NUDGE)


def stop_all(files: Files, processes: Processes, *, timeout_s: float) -> tuple[int, int]:
    """Return how many attempts ended by themselves and how many had to be killed."""
    asked = left = running(files, processes)
    end_s = time.monotonic() + timeout_s
    ask_s = 0.0
    while left and time.monotonic() < end_s:
        if time.monotonic() >= ask_s:
            # Again and again: an agent that is still going down may overwrite the wish.
            ask_s = time.monotonic() + ASK_AGAIN_S
            for attempt in left:
                ask(attempt, files, processes, grace_s=timeout_s * GRACE_FRAC)
        time.sleep(LOOK_S)
        left = [attempt for attempt in left if processes.alive(attempt.supervisor)]
    for attempt in left:
        processes.signal(attempt.supervisor, SIGKILL)  # its job dies with it
        processes.end_all(attempt.attempt_id)
    return len(asked) - len(left), len(left)


def main(arguments: list[str] | None = None) -> int:
    """Stop the jobs of one server; print one line if there are any."""
    parser = argparse.ArgumentParser(description="Bring every job of a server to a checkpoint and an end.")
    parser.add_argument("--config", required=True, help="the agent's configuration file")
    parser.add_argument("--timeout", type=float, default=DEFAULT_TIMEOUT_S, help="seconds until leftovers are killed")
    parsed = parser.parse_args(arguments)
    try:
        config: AgentConfig = config_load(parsed.config)
    except ConfigInvalid as error:
        sys.stderr.write(f"{error}\n")
        return 2
    files = AttemptFiles(attempts_dir=config.attempts_dir, state_dir=config.state_dir)
    try:
        stopped, killed = stop_all(files, HostProcesses(), timeout_s=max(0.0, parsed.timeout))
    except (OSError, Malformed) as error:
        sys.stderr.write(f"{config.server_name}: the jobs could not be stopped: {error}\n")
        return 1
    if stopped + killed:
        jobs = "1 job" if stopped == 1 else f"{stopped} jobs"
        sys.stdout.write(f"{config.server_name}: {jobs} asked to checkpoint and stopped, {killed} killed.\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
