"""Rows of profiles: what is known of how a kind of job reacts to cores, memory and GPUs; ``profiles`` fills them."""

from typing import Annotated, TypedDict

from scheduler.selectors.rows import Json, Moment


class ProfileRow(TypedDict):
    """How one kind of job reacts to what it is given."""

    fingerprint: Annotated[str, "Name of the profile, or a hash of what the job runs."]
    model: Annotated[str, "For people."]
    origin: Annotated[str, "measured, published or given."]
    is_measured: Annotated[bool, "Whether anything is known yet."]
    measured_at: Moment | None
    measured_cpus: Annotated[int, "Most cores of a job at which it was measured."]
    cost_s: Annotated[float, "Seconds that jobs trained with other cores than granted, for all its measurements."]
    measure_again: Annotated[bool, "Whether an admin asked for it; the next attempt is measured."]
    is_being_measured: bool
    best_cpus_per_gpu: Annotated[float | None, "Least cores at full speed."]
    best_memory_bytes_per_gpu: Annotated[float | None, "Least memory at full speed, with these cores."]
    skew: Annotated[float | None, "Largest tensor as a share of the model."]
    num_jobs: int


class RateRow(TypedDict):
    """A measured point."""

    cpus_per_gpu: float
    steps_per_s: float


class LiveRateRow(RateRow):
    """A rate of jobs at work."""

    num_gpus: int
    num_servers: int
    attempts: Annotated[int, "In the mean."]


class SpeedMatrix(TypedDict):
    """Speed by cores and memory."""

    cpus_per_gpu: Annotated[list[float], "Rows of the matrix, cores."]
    memory_bytes_per_gpu: Annotated[list[float], "Columns of the matrix, bytes."]
    relative_speed: Annotated[list[list[float]], "1 at the GPU-proportional share of the server."]


class ProfileDetail(ProfileRow, SpeedMatrix):
    """One profile with its curves."""

    scaling: Annotated[list[list[float]], "[GPUs, speed], 1 for one."]
    spread: Annotated[list[list[float]], "[GPUs on each server, speed], 1 on one server."]
    rates: list[RateRow]
    live_rates: list[LiveRateRow]
    evidence: Annotated[Json, "What else was measured."]


class MeasuredProfile(SpeedMatrix):
    """The curves of one measured kind, as the simulator reads them.

    ``steps_per_s`` is the rate of one GPU with its share of the server, at which the relative speed is 1.
    """

    scaling: list[list[float]]
    spread: list[list[float]]
    skew: float | None
    model: str
    steps_per_s: float
