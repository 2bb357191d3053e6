"""Start the training process of an attempt: directories, environment, user, and whether a warm process becomes it."""

import os
import sys
from pathlib import Path

from agents.core.environment import job_environment
from agents.core.records import HOST_FILE, Launch
from agents.files.attempt_dir import AttemptDir
from agents.files.job_log import JobLog
from agents.host.cgroup import AttemptGroup
from agents.host.job_paths import confinement_of
from agents.host.job_users import is_free
from agents.host.launch_names import CODE_PATH
from agents.host.passage import passage_of
from agents.host.short_tmp import short_tmp
from agents.protocol.gangs import host_file
from agents.supervisor.child import ChildPlan, StartFailed, start_child
from agents.supervisor.places import Places, places_prepare
from agents.supervisor.warm_child import WarmChild, may_take


def trainer_start(
    directory: AttemptDir,
    launch: Launch,
    *,
    log: JobLog,
    output_fd: int,
    cache: Path,
    warm: WarmChild | None,
    group: AttemptGroup | None = None,
) -> tuple[int, Places]:
    """Start the training process; return its pid and its directories.

    Args:
        directory: Of the attempt.
        launch: What to run.
        log: Gets a line where the job does not start from the checkpoint that was named.
        output_fd: Where the output goes.
        cache: Folder for items of datasets, unless another user has made it.
        warm: A process that was started ahead of time; it becomes the job, or it is ended.
        group: The control group that it is in; None for none.

    Raises:
        StartFailed, OSError.
    """
    order = launch.order
    resume_path, found = "", True
    if order.resume_name:
        resume_path, found = directory.resume_path(order.resume_attempt_id, order.resume_name)
    if not found:
        then = "the newest one beside it is taken" if resume_path else "the job starts anew"
        log.write(f"[clusterweb: checkpoint {order.resume_name} is gone; {then}]\n".encode())
    if launch.uid is not None and not is_free(launch.uid):
        raise StartFailed("launch_failed", f"User {launch.uid} is not one that jobs may run as.")
    if order.gang is not None and order.gang.hosts:
        directory.write_for_job(HOST_FILE, host_file(order.gang.hosts))
    _check_venv(launch)
    places = places_prepare(directory, launch, cache=cache)
    # A path that a spec names opens nothing by itself: an admin opens such a folder for jobs.
    built = "" if order.venv else launch.venv
    read = [os.path.realpath(path) for path in (directory.path, os.path.dirname(resume_path), built) if path]
    try:
        plan = ChildPlan(
            argv=order.command,
            env=job_environment(
                launch,
                attempt_path=directory.path,
                job_path=places.job_dir.path,
                home_path=places.job_dir.home,
                scratch_path=places.scratch,
                resume_path=resume_path,
                interpreter=sys.executable,
                code_path=CODE_PATH,
                cache_path=str(places.cache),
                datasets_path=str(places.datasets),
                tmp_path=short_tmp(order.attempt_id, places.scratch),
                interface=_interface(launch),
            ),
            work_fd=places.work_fd,
            output_fd=output_fd,
            cpu_ids=_first_cores(launch),
            largest_file_bytes=order.disk_bytes,
            uid=launch.uid,
            entrance=group.entrance if group is not None else "",
            confinement=confinement_of(os.environ, own=places.own, read=read, uid=launch.uid),
            passage={} if launch.uid is None else passage_of(os.environ),
            work_path=places.work_path,
        )
        pid = _started_ahead(plan, launch, warm)
        if pid is not None and group is not None:
            group.add(pid)
        return pid or start_child(plan), places
    finally:
        os.close(places.work_fd)


def _check_venv(launch: Launch) -> None:
    """Raise StartFailed where the environment that the job runs in is not there."""
    if not launch.venv or os.path.exists(os.path.join(launch.venv, "bin", "python")):
        return
    if launch.order.venv:
        detail = f"There is no virtual environment at {launch.venv} on this server: bin/python is missing."
        raise StartFailed("environment", detail[:300])
    raise StartFailed("launch_failed", "The environment of the job is no longer on this server.")


def _interface(launch: Launch) -> str:
    """Return the network interface for a job that starts ranks on several servers; empty where none is to be named."""
    if launch.order.gang is None or not launch.order.gang.hosts or not launch.address:
        return ""
    from agents.runtime.gangs.interfaces import interface_of  # other jobs start sooner without it

    return interface_of(launch.address)


def _first_cores(launch: Launch) -> tuple[int, ...]:
    """Return the cores that the process starts on: all that it will be measured on, for a job that is measured.

    OpenMP counts the cores once, at the start; a team of more threads than that waits asleep, and is slower for it.
    """
    grant = launch.control.grant
    if grant is None or grant.measure_above is None or not launch.cpu_ids:
        return launch.cpu_ids
    return (*launch.cpu_ids, *grant.idle_cores)


def _started_ahead(plan: ChildPlan, launch: Launch, warm: WarmChild | None) -> int | None:
    """Let the warm process become the job and return its pid; None when it may not, or cannot."""
    if warm is None:
        return None
    pid = None
    if not launch.venv and may_take(plan, asked=launch.order.env, warm_uid=warm.uid, interpreter=sys.executable):
        pid = warm.become(plan)
    if pid is None:
        warm.end()
    return pid
