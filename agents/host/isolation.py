"""Find out whether jobs can run as unix users of their own on this server, one user a queue.

Only root can do that. It is tried at start: the first of these users has to be able to run our Python and to reach the
attempts. Where that fails the server reports "none", and jobs run as the agent's own user.
"""

import os
import subprocess
from pathlib import Path

from agents.host.job_users import FIRST_UID, is_free

_TRIAL_S = 30.0
_TRIAL = "import os, sys, agents.runtime; os.stat(sys.argv[1])"


def trial(attempts_dir: Path, *, code_path: str, interpreter: str) -> str:
    """Try to run as the first of these users; return what is in the way, empty when nothing is."""
    if os.geteuid() != 0:
        return "the agent does not run as root"
    if not is_free(FIRST_UID):
        return f"user {FIRST_UID} is somebody's account"
    try:
        for directory in (attempts_dir.parent, attempts_dir):
            os.chmod(directory, 0o711)  # noqa: S103  (to be passed through, not to be listed)
        done = subprocess.run(  # noqa: S603  (argv of our own)
            [interpreter, "-S", "-P", "-c", _TRIAL, str(attempts_dir / ".")],
            user=FIRST_UID,
            group=FIRST_UID,
            extra_groups=[],
            env={"PYTHONPATH": code_path},
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TRIAL_S,
            check=False,
        )
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return f"user {FIRST_UID} cannot run {interpreter}: {error}"
    if done.returncode != 0:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {done.returncode}"]
        return f"user {FIRST_UID} cannot work: {lines[-1][:200]}"
    return ""
