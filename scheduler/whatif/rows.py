"""Rows of the forecast of another quota: each field is named here once, also for the OpenAPI document."""

from typing import Annotated, TypedDict

from scheduler.selectors.rows import Moment, one_of


class BeforeAfter(TypedDict):
    """A quota now and after the change."""

    now: int
    changed: int


class ForecastWait(TypedDict):
    """Time without GPUs within `horizon_s`, now and after the change; bounds hold 9 in 10 futures.

    A time that is null lies beyond the simulated time. A difference that is null is unknown, or unbounded.
    """

    now_s: float | None
    changed_s: float | None
    changed_low_s: float | None
    changed_high_s: float | None
    change_s: Annotated[float | None, "The middle of the differences future by future, in which chance is the same."]
    change_low_s: float | None
    change_high_s: float | None
    direction: Annotated[str, one_of(["", "longer", "shorter"], blank=True), "Empty: no change beyond the bounds."]


class ForecastPreemptions(TypedDict):
    """Times that jobs of a queue are stopped or moved within `horizon_s`."""

    now: float
    changed: float


class ForecastRow(TypedDict):
    """One queue without queues below it."""

    name: str
    color_slot: Annotated[int, "Colour on pages, 1 to 8."]
    quota_gpus: BeforeAfter
    jobs: Annotated[float, "Jobs that wait now, come, or are stopped on either side."]
    p50: Annotated[ForecastWait | None, "Of half of them. Null where there are none, or nothing is known."]
    p90: Annotated[ForecastWait | None, "Of 9 in 10."]
    mean: Annotated[ForecastWait | None, "The mean within `horizon_s`: a wait that goes on counts up to then."]
    preemptions: Annotated[ForecastPreemptions | None, "Null where nothing is known."]


class ForecastJob(TypedDict):
    """A job that the next round would treat in another way after the change; of another's only the size."""

    id: str | None
    number: int | None
    name: str
    queue: str
    color_slot: int
    num_gpus: int
    lost_s: Annotated[float | None, "Work since its newest checkpoint, where it stops; null where it starts."]


class ForecastReport(TypedDict):
    """What another quota would do."""

    at: Moment
    round: Annotated[int, "The round that the state is from."]
    known: Annotated[bool, "Whether there are figures."]
    reason: Annotated[str, one_of(["", "paused", "no_history", "too_large", "busy"], blank=True), "Why there are none."]
    sentence: Annotated[str, "What the figures were made from, or why there are none."]
    horizon_s: Annotated[float, "How far was looked."]
    futures: Annotated[int, "How many futures were simulated, each with and without the change."]
    queues: list[ForecastRow]
    starts_now: Annotated[list[ForecastJob], "Jobs that the next round starts with the change and not without it."]
    stops_now: Annotated[list[ForecastJob], "Jobs that the next round stops with the change and not without it."]
    sums: Annotated[list[str], "Why the quotas could not be saved like this: they do not add up."]
    checked: Annotated[str, "How far off the same simulation was lately, or that too few estimates tell."]
