"""What a sentence of the feed is made of: tone, icon, words; and the mark that stands where its subject goes."""

from scheduler.selectors.rows import EventRow

SUBJECT = "\ue000"  # a private character: no text of a person's holds it
Said = tuple[str, str, str]  # tone, icon, sentence


def why_of(row: EventRow) -> str:
    """Return the reason that was given for a change, with what stands before it."""
    why = row["data"].get("reason", "")
    return f": {why}" if why else ""
