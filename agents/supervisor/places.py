"""Prepare the directories of an attempt, and say which of them its job may write and read."""

import hashlib
import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from agents.core.records import Launch
from agents.files.atomic import write_at
from agents.files.attempt_dir import WRITTEN_BY_JOB, AttemptDir
from agents.files.job_dir import DirectoryRefused, JobDir
from agents.files.job_hold import Hold
from agents.files.scratch import scratch_make, scratch_root
from agents.host.job_users import folders_of
from agents.supervisor.child import StartFailed


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The directories of an attempt.

    Attributes:
        job_dir: Of its job.
        work_fd: Working directory.
        work_path: The same without links in its path.
        scratch_fd: Folder that its scratch directory is in, under the name of the attempt.
        scratch: Path of the scratch directory.
        cache: Folder for items of datasets.
        datasets: Folder for notes about datasets.
        own: What the job may write, without links in the paths.
    """

    job_dir: JobDir
    work_fd: int
    work_path: str
    scratch_fd: int
    scratch: str
    cache: Path
    datasets: Path
    own: tuple[str, ...]


def places_prepare(directory: AttemptDir, launch: Launch, *, cache: Path) -> Places:
    """Make what is missing; ``cache`` is the folder for items of datasets, unless another user has made it.

    Raises:
        StartFailed, OSError.
    """
    order = launch.order
    directory.make_writable()
    scratch_fd = scratch_make(launch.journal_dir, order.attempt_id, uid=launch.uid)
    scratch = os.path.join(scratch_root(launch.journal_dir), order.attempt_id)
    shared = Path(directory.shared_path)
    cache, datasets = folders_of(launch.uid, queue_id=order.queue_id, shared=shared, cache=cache, scratch=Path(scratch))
    job_dir = JobDir(directory.shared_path, order.job_id, Hold(launch.epoch, order.number))
    try:
        work_fd, _ = job_dir.prepare(
            attempt_id=order.attempt_id, uid=launch.uid, lay_in=partial(files_lay_in, order.files)
        )
    except DirectoryRefused as error:
        raise StartFailed("launch_failed", str(error)) from None
    # Other jobs cannot put links into these paths, but into the cache's, which is passed over then.
    place, around = os.path.realpath(directory.path), os.path.realpath(os.path.dirname(job_dir.path))
    work_path, home = (os.path.join(around, os.path.basename(path)) for path in (job_dir.path, job_dir.home))
    written = (os.path.join(place, name) for name in WRITTEN_BY_JOB)
    notes = os.path.join(os.path.realpath(datasets.parent), datasets.name)
    return Places(
        job_dir=job_dir,
        work_fd=work_fd,
        work_path=work_path,
        scratch_fd=scratch_fd,
        scratch=scratch,
        cache=cache,
        datasets=datasets,
        own=(*written, work_path, home, os.path.realpath(scratch), str(cache), notes),
    )


def files_lay_in(files: dict[str, str], dir_fd: int) -> dict[str, Any]:
    """Write the small files of a spec, in place of sent ones of the same names; return their digests."""
    for name, text in files.items():
        write_at(dir_fd, name, text.encode(), durable=True)
    return {"files": {name: hashlib.sha256(text.encode()).hexdigest() for name, text in files.items()}}
