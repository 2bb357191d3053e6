"""Find out whether jobs can run as unix users of their own on this server, one user a queue.

Only root can do that. It is tried at start: the first of these users has to be able to run our Python and to reach the
attempts, if need be through folders that are closed to it (``passage.py``). Where that fails an agent of root takes no
jobs, unless an admin lets them run as root.
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from agents.core.records import DATASETS_DIR
from agents.host.job_paths import python_folders
from agents.host.job_users import FIRST_UID, is_free
from agents.host.launch_names import JOB_CODE
from agents.host.passage import JOB_PASSAGE, Passage, open_passage, passage_of, passage_to, passage_told
from agents.protocol.shared_dir import JOBS_DIR

_TRIAL_S = 30.0
_TRIAL = "import os, sys, clusterweb_runtime; os.stat(sys.argv[1])"


def passage_of_jobs(
    attempts_dir: Path, *, interpreter: str, local: Iterable[Path] = (), opened: Iterable[str] = ()
) -> Passage:
    """Return what has to be shown to jobs of users of their own; ``opened`` is what an admin opened beside it.

    Makes the folders that jobs must reach; ``local`` are those on this server alone.
    """
    shared = attempts_dir.parent
    places = (attempts_dir, shared / JOBS_DIR, shared / DATASETS_DIR, *local)
    for folder in (*dict.fromkeys(place.parent for place in places), *places):
        with contextlib.suppress(OSError):  # on a shared disk it may be another's; the trial decides
            folder.mkdir(parents=True, exist_ok=True, mode=0o711)
            os.chmod(folder, 0o711)  # noqa: S103  (to be passed through, not to be listed)
    return passage_to((interpreter, *python_folders(), *JOB_CODE, *places, *opened))


def trial(attempts_dir: Path, *, code_path: str, interpreter: str, passage: Passage) -> str:
    """Try to run as the first of these users; return what is in the way, empty when nothing is."""
    if os.geteuid() != 0:
        return "the agent does not run as root"
    if not is_free(FIRST_UID):
        return f"user {FIRST_UID} is somebody's account"
    try:
        # In a process of one thread, which this one is not.
        done = subprocess.run(  # noqa: S603  (argv of our own)
            [sys.executable, "-S", "-P", "-m", "agents.host.isolation", interpreter, str(attempts_dir / ".")],
            env={"PYTHONPATH": code_path, **passage_told(passage)},
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


def main(interpreter: str, place: str) -> None:
    """Become the first of these users, as a job does, and try."""
    passage = passage_of(os.environ)
    if passage:
        open_passage(passage)
    os.environ.pop(JOB_PASSAGE, None)
    os.setgroups([])
    os.setresgid(FIRST_UID, FIRST_UID, FIRST_UID)
    os.setresuid(FIRST_UID, FIRST_UID, FIRST_UID)
    os.execv(interpreter, [interpreter, "-S", "-P", "-c", _TRIAL, place])  # noqa: S606  (argv of our own)


if __name__ == "__main__":
    main(*sys.argv[1:])
