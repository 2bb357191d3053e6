"""Trials of introspection (packing, migration, growth) in words: what was done, speeds before and after, verdict."""

from frontend.components.formats import joined, number
from scheduler.selectors.rows import Json

DONE = {"pack": "shares its GPUs", "move": "was moved", "grow": "was given idle GPUs"}
VERDICTS = {
    "trying": ("info", "hourglass", "it is being measured"),
    "kept": ("ok", "check", "it pays and stays"),
    "undone": ("warn", "log-out", "it did not pay and is taken back"),
    "gone": ("mute", "info", "it ended before it was judged"),
}


def trial_words(data: Json) -> tuple[str, str, str]:
    """Return tone, icon and the end of a sentence that begins with the job.

    Args:
        data: Of an event of kind ``trial``: ``scheduler.models.round.TriedChange`` as JSON.
    """
    tone, icon, verdict = VERDICTS.get(data.get("verdict", ""), ("mute", "info", ""))
    done = DONE.get(data.get("kind", ""), str(data.get("kind", "")))
    if data.get("kind") == "pack":
        done = f"{done} ({joined([f'J-{job}' for job in data.get('jobs', [])])})"
    gain = data.get("gain")
    worth = f", together {number(gain, 2)} of one alone in turn" if gain is not None else ""
    return tone, icon, f"{done}: {_speeds(data)}{worth}; {verdict}."


def _speeds(data: Json) -> str:
    before, after = _listed(data.get("rates_before", [])), _listed(data.get("rates_after", []))
    return f"{before} mini-batches/s before" + (f", {after} now" if after else "")


def _listed(rates: list[float | None]) -> str:
    return " and ".join("unknown" if rate is None else number(rate, 2) for rate in rates)
