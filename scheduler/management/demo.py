"""The data of the demo: queues, users, servers, and eight jobs that compete for four slots."""

from dataclasses import dataclass

ROOT_QUEUE = "research"
# Small limit of the demo's LAS policy, so that the first preemption comes within a minute.
LAS_LIMIT_GPU_S = 25.0


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

QUEUES = (("vision", 2), ("speech", 2))
SERVERS = ("server-01", "server-02")

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
