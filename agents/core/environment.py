"""The environment of a training process: those of the job and those we promise, none of the agent's own. Pure."""

import math
import os
from collections.abc import Mapping

from agents.core.gang_environment import INTERFACE_NAMES, process_of_gpu, process_of_server, threads_of_ranks
from agents.core.records import (
    CHECKPOINT_DIR,
    ENVIRONMENTS_DIR,
    GANG_FILE,
    GRANT_FILE,
    HOST_FILE,
    REPORT_FILE,
    REQUEST_FILE,
    Launch,
)

USER_NAME = "job"
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def environment_name(digest: str, tag: str) -> str:
    """Return the name of the folder of an environment; ``tag`` says with which Python and index it is made."""
    return f"{digest[:40]}-{tag}"


def venv_path(state_dir: str, digest: str, tag: str) -> str:
    """Return where the virtual environment of a digest is, below the state directory of a server."""
    return os.path.join(state_dir, ENVIRONMENTS_DIR, environment_name(digest, tag), "venv")


def _may_set(name: str) -> bool:
    """Return whether a variable of the order reaches the process; those of an array come from orders, not specs."""
    if name.startswith("CLUSTERWEB_ARRAY"):
        return True
    return not (name.startswith(("CLUSTERWEB_", "LD_")) or name in ("PATH", "PYTHONPATH", "CUDA_VISIBLE_DEVICES"))


def job_environment(
    launch: Launch,
    *,
    attempt_path: str,
    job_path: str,
    home_path: str,
    scratch_path: str,
    resume_path: str,
    interpreter: str,
    code_path: str,
    cache_path: str,
    datasets_path: str,
    tmp_path: str,
    interface: str = "",
) -> Mapping[str, str]:
    """Return all variables of the training process.

    Args:
        launch: What is run.
        attempt_path: Directory of the attempt.
        job_path: Directory of the job: the same at every attempt and on every rank.
        home_path: HOME, which lives as long as the job.
        scratch_path: Local directory that is removed with the attempt.
        resume_path: Checkpoint to start from; empty to start new.
        interpreter: Path of the Python that ``python`` is to mean for a job without an environment of its own.
        code_path: Directory from which ``agents.runtime`` can be imported.
        cache_path: Directory in memory where the jobs of this server keep items of datasets.
        datasets_path: Directory where jobs keep what they learned about datasets.
        tmp_path: Directory for temporary files: a short path to the scratch.
        interface: Of the network by which the other servers reach this one; empty when not known.
    """
    order = launch.order
    threads = str(max(1, len(order.cpu_ids)))
    defaults = {
        "HOME": home_path,
        # Users of queues have no account, and libraries ask for a name: torch with Triton at its first optimizer.
        "LOGNAME": USER_NAME,
        "USER": USER_NAME,
        "TMPDIR": tmp_path,
        "LANG": "C.UTF-8",
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        # torchrun kills its ranks after so many seconds, 30 by itself, whatever grace the job has.
        "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": str(math.ceil(order.grace_s)),
        # Every attempt goes on in the same run of Weights & Biases.
        "WANDB_RUN_ID": order.job_id,
        "WANDB_RESUME": "allow",
    }
    python = os.path.join(launch.venv, "bin", "python") if launch.venv else interpreter
    promised = {
        "PATH": f"{os.path.dirname(python)}:{_SYSTEM_PATH}",
        "PYTHONPATH": code_path,
        "CUDA_VISIBLE_DEVICES": ",".join(launch.visible_devices),
        "CLUSTERWEB_JOB_DIR": job_path,
        "CLUSTERWEB_SCRATCH_DIR": scratch_path,
        "CLUSTERWEB_REPORT_FILE": os.path.join(attempt_path, REPORT_FILE),
        "CLUSTERWEB_REQUEST_FILE": os.path.join(attempt_path, REQUEST_FILE),
        "CLUSTERWEB_CHECKPOINT_DIR": os.path.join(attempt_path, CHECKPOINT_DIR),
        "CLUSTERWEB_GRANT_FILE": os.path.join(attempt_path, GRANT_FILE),
        "CLUSTERWEB_CACHE_DIR": cache_path,
        "CLUSTERWEB_DATASETS_DIR": datasets_path,
        "CLUSTERWEB_JOB_ID": order.job_id,
        "CLUSTERWEB_ATTEMPT_ID": order.attempt_id,
        "CLUSTERWEB_NUM_GPUS": str(len(order.gpu_indexes)),
        "CLUSTERWEB_NUM_CPUS": threads,
        "CLUSTERWEB_MEMORY_BYTES": str(order.memory_bytes),
    }
    gang = order.gang
    if gang is not None and gang.hosts:
        promised |= process_of_server(gang, host_file=os.path.join(attempt_path, HOST_FILE))
        defaults |= threads_of_ranks(num_cpus=len(order.cpu_ids), ranks=len(order.gpu_indexes))
        defaults |= {name: interface for name in INTERFACE_NAMES if interface}
    elif gang is not None:
        promised |= process_of_gpu(gang, member=order.attempt_id, gang_file=os.path.join(attempt_path, GANG_FILE))
        promised["CLUSTERWEB_ADDRESS"] = launch.address
    if launch.venv:
        promised["VIRTUAL_ENV"] = launch.venv
    if resume_path:
        promised["CLUSTERWEB_RESUME_FILE"] = resume_path
    owned = {name: value for name, value in order.env.items() if _may_set(name)}
    return {**defaults, **owned, **promised}
