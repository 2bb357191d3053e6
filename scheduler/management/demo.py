"""The data of the demo: queues, users, servers, and eight jobs that compete for four slots or the GPUs there are."""

from collections.abc import Sequence
from dataclasses import dataclass

import pynvml

ROOT_QUEUE = "research"
# Small limit of the demo's LAS policy: the first preemption comes within a minute, and on a busy machine, where a start
# takes 30 s, not before a job has trained.
LAS_LIMIT_GPU_S = 40.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoUser:
    """One user and the role in one queue; an admin has none."""

    name: str
    queue: str = ""
    role: str = ""
    admin: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoJob:
    """One job: a workload with its sizes."""

    name: str
    owner: str
    queue: str
    workload: str
    arguments: str
    gpus: int = 1


USERS = (
    DemoUser(name="admin", admin=True),
    DemoUser(name="lead", queue="vision", role="lead"),
    DemoUser(name="member", queue="vision", role="member"),
    DemoUser(name="outsider", queue="speech", role="member"),
)

QUEUES = ("vision", "speech")
SERVERS = ("server-01", "server-02")
CPU_SLOTS = 2  # of each server, where the machine has no GPU

JOBS = (
    DemoJob(name="resnet-shapes", owner="member", queue="vision", workload="resnet", arguments="--steps 260"),
    DemoJob(name="mobilenet-edge", owner="lead", queue="vision", workload="mobilenet", arguments="--steps 320"),
    DemoJob(name="resnet-wide", owner="lead", queue="vision", workload="resnet", arguments="--steps 160", gpus=2),
    DemoJob(name="m5-tones", owner="outsider", queue="speech", workload="m5", arguments="--steps 400"),
    DemoJob(name="lstm-words", owner="outsider", queue="speech", workload="lstm", arguments="--steps 300"),
    DemoJob(
        name="transformer-words",
        owner="outsider",
        queue="speech",
        workload="transformer",
        arguments="--steps 260",
        gpus=2,
    ),
    DemoJob(name="mobilenet-small", owner="member", queue="vision", workload="mobilenet", arguments="--steps 120"),
    DemoJob(name="m5-short", owner="outsider", queue="speech", workload="m5", arguments="--steps 150"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoServer:
    """One server of the demo: a part of this machine.

    Attributes:
        gpu_uuids: GPUs that it offers; none where the machine has none.
    """

    name: str
    gpu_uuids: tuple[str, ...] = ()

    @property
    def num_gpus(self) -> int:
        """Return how many GPUs or CPU slots it offers."""
        return len(self.gpu_uuids) or CPU_SLOTS


def machine_gpus() -> list[str]:
    """Return the UUIDs of the GPUs of this machine."""
    try:
        pynvml.nvmlInit()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        return [_text(pynvml.nvmlDeviceGetUUID(handle)) for handle in handles]
    except pynvml.NVMLError:
        return []


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def demo_servers(gpu_uuids: Sequence[str]) -> list[DemoServer]:
    """Return the servers of the demo on a machine with these GPUs.

    They share one machine, and a GPU that two of them offered would be given to two jobs. So each has GPUs of its own,
    and there are no more servers than GPUs.
    """
    if not gpu_uuids:
        return [DemoServer(name=name) for name in SERVERS]
    names = SERVERS[: len(gpu_uuids)]
    return [
        DemoServer(name=name, gpu_uuids=tuple(gpu_uuids[number :: len(names)])) for number, name in enumerate(names)
    ]
