"""Stop every job of a server when the whole product is stopped.

    python -m agents.supervisor.stop --config FILE [--timeout SECONDS] [--json]

Each job is asked to checkpoint and stop, as for a preemption; what is left after the timeout is killed. The next agent
reports these attempts as preempted, so the scheduler resumes the jobs. With ``--json`` it says what each job has saved.
"""

import argparse
import contextlib
import json
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

from agents.config import AgentConfig, config_load
from agents.core.records import (
    CHECKPOINT_DIR,
    CONTROL_FILE,
    ENVIRONMENTS_DIR,
    LAUNCH_FILE,
    STATE_FILE,
    Control,
    Durable,
    Launch,
    SupervisorState,
    encode,
)
from agents.executor import NUDGE
from agents.files.server_files import AttemptFiles
from agents.host.process import HostProcesses
from agents.protocol.errors import ConfigInvalid, Malformed
from agents.protocol.ports import Files, Processes, ProcessIdentity

DEFAULT_TIMEOUT_S = 20.0
# Of the timeout, for the graces of a job: one after its signal, and where it reads requests one before that. The rest
# is for killing and writing the last state.
GRACE_FRAC = 0.7
LOOK_S = 0.05
ASK_AGAIN_S = 1.0
SIGKILL = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """An attempt with a live supervisor; ``reads_requests`` is what it has shown so far."""

    attempt_id: str
    supervisor: ProcessIdentity
    reads_requests: bool = False


def running(files: Files, processes: Processes) -> list[Running]:
    """Return the attempts of this server whose supervisor lives."""
    found = []
    content = files.read_own()
    for attempt_id, kept in Durable.parse(content).attempts.items() if content is not None else ():
        state = SupervisorState.parse(files.read(attempt_id, STATE_FILE))
        supervisor = kept or (state.supervisor if state is not None else None)
        if supervisor is not None and processes.alive(supervisor):
            reads_requests = state is not None and state.report.first_step is not None
            found.append(Running(attempt_id=attempt_id, supervisor=supervisor, reads_requests=reads_requests))
    return found


def ask(attempt: Running, files: Files, processes: Processes, *, grace_s: float) -> None:
    """Tell the supervisor to preempt its job within ``grace_s``, seconds."""
    control = Control.parse(files.read(attempt.attempt_id, CONTROL_FILE))
    if control is None:
        content = files.read(attempt.attempt_id, LAUNCH_FILE)
        control = Launch.parse(content).control if content is not None else None
    if control is None:
        return
    wanted = "preempt" if control.wanted in ("run", "park") else control.wanted
    own_s = grace_s / 2 if attempt.reads_requests else grace_s
    stopping = replace(control, wanted=wanted, grace_s=min(control.grace_s, own_s))
    files.write(attempt.attempt_id, CONTROL_FILE, encode(stopping))
    processes.signal(attempt.supervisor, NUDGE)


def stop_all(files: Files, processes: Processes, *, timeout_s: float) -> tuple[list[str], list[str]]:
    """Return the attempts that ended by themselves and those that had to be killed."""
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
    killed = [attempt.attempt_id for attempt in left]
    return [attempt.attempt_id for attempt in asked if attempt.attempt_id not in killed], killed


def builds_end(state_dir: Path, processes: Processes) -> None:
    """End the builds of environments; what they have made so far is made anew when a job asks for it again."""
    for folder in (state_dir / ENVIRONMENTS_DIR).glob("*-*"):
        if not (folder / "made.json").exists():
            processes.end_all(folder.name)


def saved(attempt_id: str, files: Files, attempts_dir: Path) -> dict[str, object]:
    """Return what an attempt that was stopped has kept, for ``clusterweb.stack``."""
    state = SupervisorState.parse(files.read(attempt_id, STATE_FILE))
    if state is None:
        return {"attempt": attempt_id, "first_step": None, "step": None, "run_s": 0.0, "checkpoint": None}
    said, checkpoint = state.report, None
    if said.checkpoint_name:
        path = attempts_dir / attempt_id / CHECKPOINT_DIR / said.checkpoint_name
        with contextlib.suppress(OSError):
            age_s = max(0.0, time.time() - path.stat().st_mtime)
            checkpoint = {"step": said.checkpoint_step, "age_s": age_s}
    return {
        "attempt": attempt_id,
        "first_step": said.first_step,
        "step": said.step,
        "run_s": said.run_s,
        "checkpoint": checkpoint,
    }


def main(arguments: list[str] | None = None) -> int:
    """Stop the jobs of one server; print one line if there are any."""
    parser = argparse.ArgumentParser(description="Bring every job of a server to a checkpoint and an end.")
    parser.add_argument("--config", required=True, help="the agent's configuration file")
    parser.add_argument("--timeout", type=float, default=DEFAULT_TIMEOUT_S, help="seconds until leftovers are killed")
    parser.add_argument("--json", action="store_true", help="say what each job has saved")
    parsed = parser.parse_args(arguments)
    try:
        config: AgentConfig = config_load(parsed.config)
    except ConfigInvalid as error:
        sys.stderr.write(f"{error}\n")
        return 2
    files = AttemptFiles(attempts_dir=config.attempts_dir, state_dir=config.state_dir)
    try:
        stopped, killed = stop_all(files, HostProcesses(), timeout_s=max(0.0, parsed.timeout))
        builds_end(config.state_dir, HostProcesses())
    except (OSError, Malformed) as error:
        sys.stderr.write(f"{config.server_name}: the jobs could not be stopped: {error}\n")
        return 1
    if stopped or killed:
        jobs = "1 job" if len(stopped) == 1 else f"{len(stopped)} jobs"
        words = f"{config.server_name}: {jobs} asked to checkpoint and stopped, {len(killed)} killed."
        kept = [saved(attempt_id, files, config.attempts_dir) for attempt_id in (*stopped, *killed)]
        sys.stdout.write(f"{json.dumps({'sentence': words, 'jobs': kept})}\n" if parsed.json else f"{words}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
