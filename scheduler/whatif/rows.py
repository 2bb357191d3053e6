"""Rows of the forecast of another quota: each field is named here once, also for the OpenAPI document."""

from typing import Annotated, TypedDict

from scheduler.selectors.rows import Moment, one_of


class BeforeAfter(TypedDict):
    """A quota now and after the change."""

    now: int
    changed: int


class ForecastFigures(TypedDict):
    """What the jobs of a queue are to expect within `horizon_s`."""

    jobs: Annotated[float, "Jobs that wait now or are expected."]
    wait_p50_s: Annotated[float | None, "Null: longer than can be seen."]
    wait_p90_s: Annotated[float | None, "Null: longer than can be seen."]
    longest_s: Annotated[float, "The longest wait seen; what is null is longer."]
    preemptions: Annotated[float, "Times that its jobs are stopped or moved."]


class ForecastRow(TypedDict):
    """One queue without queues below it."""

    name: str
    color_slot: Annotated[int, "Colour on pages, 1 to 8."]
    quota_gpus: BeforeAfter
    now: Annotated[ForecastFigures | None, "Null where nothing is known."]
    changed: ForecastFigures | None


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
    sums: Annotated[list[str], "Why the quotas could not be saved like this: they do not add up."]
