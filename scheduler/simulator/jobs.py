"""The jobs of a workload, with what only the simulator knows of them: run times and failures."""

from dataclasses import dataclass

from scheduler.core.model.profile import Profile

UNKNOWN = Profile()


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One attempt that fails.

    Attributes:
        after_s: Run time of the attempt until it fails, seconds.
        cause: Class of the failure, as in ``scheduler/core/operations/failures.py``.
    """

    after_s: float
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SimJob:
    """One job of a workload.

    Attributes:
        arrival_s: Time of submission, seconds.
        num_gpus: GPUs of its gang; for an elastic job the number that ``run_s`` is stated for.
        run_s: Run time at speed 1 (its GPUs, their proportional share, on few servers, alone), seconds.
        queue: Row in the QueueTable.
        max_servers: Most servers it may use, 0 for any number.
        profile: How its speed depends on what it gets.
        owner: Number of its user.
        priority: Larger goes first where a policy looks at it.
        weight: Share of GPU time beside its peers where time is sliced.
        min_gpus: Least GPUs it can run on; None for ``num_gpus``.
        max_gpus: Most GPUs it can use; None for ``num_gpus``.
        min_cpus: Cores it insists on, whole gang.
        min_memory_bytes: Memory it insists on, whole gang.
        name: What its trace calls it.
        model: What it trains, empty when its trace does not say.
        failures: Its failing attempts, in order; the attempt after the last of them succeeds.
        number: What other jobs call it; 0 where none has to.
        after: Numbers of jobs that have to end before it joins the line; those outside the workload have.
        array: Number of its array; 0 for none.
        array_most: Jobs of that array at work at once; 0 for all.
    """

    arrival_s: float
    num_gpus: int
    run_s: float
    queue: int = 0
    max_servers: int = 0
    profile: Profile = UNKNOWN
    owner: int = 0
    priority: float = 50.0
    weight: float = 1.0
    min_gpus: int | None = None
    max_gpus: int | None = None
    min_cpus: float = 0.0
    min_memory_bytes: float = 0.0
    name: str = ""
    model: str = ""
    failures: tuple[Failure, ...] = ()
    number: int = 0
    after: tuple[int, ...] = ()
    array: int = 0
    array_most: int = 0
