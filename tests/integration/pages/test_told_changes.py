"""Sentences about servers that were changed and about requests for quota that were answered."""

from typing import Any, cast

import pytest

from frontend.components.devices import GPUS
from frontend.components.event_words.jobs import kept_longer
from frontend.components.happenings import happenings
from frontend.pages.overview.words import request_line
from scheduler.selectors.queues.requests import QuotaRequestRow
from scheduler.selectors.rows import EventRow

AT = "2026-11-24T12:00:00.000Z"


def said(kind: str, data: dict[str, Any], server: str | None = "gpu-2") -> str:
    """Return one line of the feed as it is read."""
    row = {"kind": kind, "actor": "ada", "at": AT, "job_number": None, "server": server, "queue": None, "data": data}
    (line,) = happenings([cast(EventRow, row)], GPUS)
    return line.before + line.subject + line.words


def test_changes_of_servers_name_the_server_once_and_in_its_place() -> None:
    """A sentence without a place for its subject would begin with it: gpu-2 ada renamed ..."""
    before = {"name": "gpu-1", "labels": []}
    renamed = {"before": before, "after": {"name": "gpu-2", "labels": []}, "reason": "new rack"}
    both = {"before": before, "after": {"name": "gpu-2", "labels": ["west"]}, "reason": "new rack"}

    assert said("server_change", renamed) == "ada renamed gpu-2 from gpu-1 to gpu-2: new rack."
    assert said("server_change", both) == "ada renamed gpu-2 from gpu-1 to gpu-2 and labelled it west: new rack."
    assert said("server_removal", {"name": "gpu-2", "reason": "sold"}) == "ada removed the server gpu-2: sold."
    assert said("server_removal", {"name": "gpu-2", "reason": "sold"}, None) == "ada removed the server gpu-2: sold."


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"keep_until": {"before": None, "after": "2026-12-01T22:59:59.999Z"}}, "until 1 Dec 2026"),
        ({"keep_until": {"before": "2026-12-01T22:59:59.999Z", "after": None}}, "only as long as its queue does"),
        ({"keep_until": {"after": "2026-12-01T23:59:59.999Z"}, "day": "2026-12-02"}, "until 2 Dec 2026"),
        ({"keep_until": {"after": None}, "day": None}, "only as long as its queue does"),
    ],
)
def test_how_long_files_are_kept_is_told_of_events_without_a_day_too(data: dict[str, Any], words: str) -> None:
    """The first events of their kind have the moment alone, in UTC; later ones the day of the user as well."""
    assert kept_longer(cast(EventRow, {"data": data})) == words


@pytest.mark.parametrize(("given", "words"), [(12, "12 GPUs."), (8, "8 GPUs in place of the 12 that you asked for.")])
def test_asker_reads_that_less_was_given(given: int, words: str) -> None:
    """A grant of less is told as one."""
    row = {"queue": "vision", "state": "granted", "answered_by": "ada", "given_gpus": given, "quota_gpus": 12}

    line = request_line(cast(QuotaRequestRow, {**row, "answer": ""}), GPUS)

    assert line["words"].replace("\u00a0", " ") == f"vision: ada granted your request: {words}"
