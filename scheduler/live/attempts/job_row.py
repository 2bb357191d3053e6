"""The row of a job as a round reads it from the database."""

from datetime import datetime
from typing import TypedDict


class JobQueryRow(TypedDict):
    """One row of the query; the keys are columns of ``Job`` and paths into its spec."""

    pk: str
    number: int
    queue_id: int
    owner_id: int | None
    num_gpus: int
    priority: int
    preemptible: bool
    state: str
    submitted_at: datetime
    state_changed_at: datetime
    first_started_at: datetime | None
    attained_gpu_s: float
    promoted_gpu_s: float
    step: int | None
    total_steps: int | None
    steps_per_s: float | None
    progress_at: datetime | None
    weight: float
    checkpoint_attempt_id: str | None
    checkpoint_step: int | None
    checkpoint_at: datetime | None
    profile_id: int | None
    spec__resources__cpus: float | str | None
    spec__resources__memory: str | None
    spec__resources__gpus: int
    spec__resources__min_gpus: int | None
    spec__resources__max_gpus: int | None
    spec__resources__max_servers: int | None  # specs of early versions have none
    smoke_due: bool


COLUMNS = tuple(JobQueryRow.__annotations__)
