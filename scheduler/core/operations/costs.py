"""What GPU-hours cost by the end of a month, at the pace so far."""

EARLY_S = 3 * 86_400.0  # before that much of a month a pace says nothing


def month_forecast(*, spent: float, elapsed_s: float, month_s: float) -> float | None:
    """Return what a month will have cost at its end if it goes on as until now; None while it is too early to tell.

    It is ``spent * month_s / elapsed_s``: every hour of the rest costs what an hour cost in the mean since the first of
    the month. A month that is over cost what was spent.

    Args:
        spent: Cost since the first of the month.
        elapsed_s: Seconds since then, at most ``month_s``.
        month_s: Length of the month, seconds.
    """
    if elapsed_s >= month_s:
        return spent
    return spent * month_s / elapsed_s if elapsed_s >= EARLY_S else None
