"""The decision log: the list of rounds, and one round with every decision and its reason."""

from typing import TypedDict

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_safe

from frontend.components.devices import DeviceWord, device_word
from frontend.components.errors import page
from frontend.components.event_words.options import option_label, option_said
from frontend.components.event_words.trials import trial_words
from frontend.components.reason_names import reason_name
from frontend.components.viewer import viewer_zone
from frontend.pages.rounds.folding import RoundLine, asked_time, folded, round_at
from frontend.pages.rounds.past_map import past_map
from frontend.pages.rounds.words import (
    folded_words,
    pace,
    preemption_words,
    seat_words,
    trigger_words,
    wait_words,
    what_it_did,
)
from scheduler.selectors.cluster.rounds import round_detail, round_list, round_row
from scheduler.selectors.cluster.rows import DecidedJob, GrantRow, RoundDetailRow, TrialRow
from scheduler.selectors.cluster.servers import server_list

ON_A_PAGE = 50
READ_MOST = 1_000  # to fold
SHOWN_MOST = 200
MAP_MOST = 64


class GrantLine(GrantRow):
    """A grant with its seats in words."""

    words: str


class TrialLine(TypedDict):
    """A tried change in words that begin with its first job."""

    job: DecidedJob | None
    tone: str
    icon: str
    words: str
    servers: list[str]


@require_safe
def rounds(request: HttpRequest) -> HttpResponseBase:
    """Show rounds, newest first; ``?before=<number>`` goes back, ``?at=<time>`` to a time.

    Rounds that did nothing are folded, shown with ``?every=1`` and left out with ``?changes=1``.
    """
    found, zone = round_list(request.user), viewer_zone(request)
    asked = request.GET.get("at", "")[:40]
    if asked:
        at = asked_time(asked, zone)
        number = round_at(found, at) if at else None
        if number is not None:
            return redirect(f"{reverse('rounds')}?before={number + 1}")
        messages.info(request, f"No round had begun by {asked}." if at else f"{asked} is no date and time.")
    before, only_changes = request.GET.get("before", ""), request.GET.get("changes") == "1"
    if before.isdigit() and len(before) < 18:
        found = found.filter(number__lt=int(before))
    if only_changes:
        found = found.exclude(num_launched=0, num_preempted=0)
    is_every = request.GET.get("every") == "1" or only_changes
    read = ON_A_PAGE if is_every else READ_MOST
    rows = [round_row(entry) for entry in found[: read + 1]]
    more, rows = len(rows) > read, rows[:read]
    lines = [RoundLine(rounds=[row]) for row in rows] if is_every else folded(rows, most=ON_A_PAGE)
    shown = [row for line in lines for row in line.rounds]
    more, rows = more or len(shown) < len(rows), shown
    context = {
        "rows": [_line(line) for line in lines],
        "tiles": pace(rows),
        "only_changes": only_changes,
        "is_every": is_every,
        "is_first": not before,
        "before": rows[-1]["number"] if rows and more else None,
    }
    return render(request, "rounds/rounds.html", context)


def _line(line: RoundLine) -> dict[str, object]:
    """Return a line with its words; the newest round of it stands for all."""
    row = line.rounds[0]
    return {
        **row,
        "did": folded_words(line.rounds) if line.is_folded else what_it_did(row),
        "why": "" if line.is_folded else trigger_words(row["trigger"]),
        "folded": len(line.rounds) if line.is_folded else 0,
        "oldest": line.rounds[-1]["number"],
    }


@page
@require_safe
def round_page(request: HttpRequest, number: int) -> HttpResponseBase:
    """Show one round; decisions about jobs of other queues are there without names."""
    row = round_detail(request.user, number)
    servers = server_list(request.user)
    device = device_word(server["device_kind"] for server in servers)
    launched, kept, others = _grants(row, device)
    counts = dict(row["grants_by_state"])
    context = {
        "round": row,
        "servers": past_map(row["grants"], servers[:MAP_MOST]),
        "device": device,
        "did": what_it_did(row),
        "why": trigger_words(row["trigger"]),
        "options": [
            (option_label(name), device.said(option_said(name, value))) for name, value in row["policy_options"].items()
        ],
        "preemptions": [
            {**entry, "words": preemption_words(entry, device)} for entry in row["preemptions"][:SHOWN_MOST]
        ],
        "trials": [_trial(entry) for entry in row["trials"][:SHOWN_MOST]],
        "launched": launched[:SHOWN_MOST],
        "num_launched": counts.pop("launched", 0),
        "deferred": others[:SHOWN_MOST],
        "kept": kept[:SHOWN_MOST],
        "num_kept": counts.pop("kept", 0),
        "num_deferred": sum(counts.values()),
        "is_cut": row["is_shortened"]
        or any(len(shown) > SHOWN_MOST for shown in (row["preemptions"], row["waiting"], launched, others, kept)),
        "waiting": [{**entry, "words": wait_words(entry, device)} for entry in row["waiting"][:SHOWN_MOST]],
        "reasons": [
            {"code": code, "name": reason_name(code)[0], "count": count}
            for code, count in sorted(row["waiting_by_reason"].items(), key=lambda i: -i[1])
        ],
    }
    return render(request, "rounds/round.html", context)


def _trial(entry: TrialRow) -> TrialLine:
    """Return one tried change in words."""
    numbers = [job["number"] for job in entry["jobs"] if job]
    tone, icon, words = trial_words({**entry, "jobs": numbers})
    return {"job": entry["jobs"][0], "tone": tone, "icon": icon, "words": words, "servers": entry["servers"]}


def _grants(row: RoundDetailRow, device: DeviceWord) -> tuple[list[GrantLine], list[GrantLine], list[GrantLine]]:
    """Return the grants that started, the grants that stayed, and the grants that could not take effect yet."""
    parts: dict[str, list[GrantLine]] = {"launched": [], "kept": [], "other": []}
    for entry in row["grants"]:
        state = entry["state"] if entry["state"] in parts else "other"
        parts[state].append({**entry, "words": seat_words(entry["seats"], device)})
    return parts["launched"], parts["kept"], parts["other"]
