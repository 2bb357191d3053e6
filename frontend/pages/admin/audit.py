"""The audit list: filters in the URL, each entry with the values before and after, and the list as a file."""

import csv
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime, time, timedelta, tzinfo
from typing import Literal, NotRequired, TypedDict, get_args

from django.http import HttpRequest, HttpResponseBase, StreamingHttpResponse
from django.shortcuts import render
from django.utils.dateparse import parse_date
from django.views.decorators.http import require_safe

from frontend.components.devices import DeviceWord, device_word
from frontend.components.errors import page
from frontend.components.viewer import viewer_zone
from frontend.pages.admin.audit_changes import AuditChange, audit_changes
from frontend.pages.admin.audit_words import Part, sentence
from frontend.pages.admin.views import require_admin
from scheduler.core.model.errors import NotFound
from scheduler.selectors.accounts.audit import KINDS, audit_list, audit_row
from scheduler.selectors.accounts.rows import AuditRow
from scheduler.selectors.cluster.servers import device_kinds

ON_A_PAGE = 50
EXPORTED_MOST = 100_000
SIGN_IN, EVERYTHING = "sign_in", "all"
AuditColumn = Literal[
    "at", "who", "kind", "did", "job", "queue", "server", "before", "after", "why", "data", "request_id",
]  # fmt: skip
COLUMNS: tuple[AuditColumn, ...] = get_args(AuditColumn)
FORMULA = ("=", "+", "-", "@", "\t", "\r")


class AuditLine(AuditRow):
    """One entry of the page: its sentence after the name of the user, and what changed."""

    changes: list[AuditChange]
    words: list[Part]


class Asked(TypedDict):
    """Arguments of ``audit_list``."""

    who: str
    what: str
    request_id: str
    kind: str
    without: tuple[str, ...]
    since: NotRequired[datetime]
    until: NotRequired[datetime]


def _filters(request: HttpRequest) -> tuple[dict[str, str], Asked]:
    """Return the form as typed, and the filters that it asks for; values that cannot be read are left out."""
    sent = {name: request.GET.get(name, "").strip()[:150] for name in ("who", "kind", "what", "request_id")}
    sent |= {name: request.GET.get(name, "")[:10] for name in ("since", "until")}
    sent = {name: value.replace("\x00", "") for name, value in sent.items()}
    asked: Asked = {
        "who": sent["who"],
        "what": sent["what"],
        "request_id": sent["request_id"],
        "kind": sent["kind"] if sent["kind"] in KINDS else "",
        "without": (SIGN_IN,) if _leaves_sign_ins_out(sent) else (),
    }
    zone = viewer_zone(request)
    if (since := _midnight(sent["since"], zone)) is not None:
        asked["since"] = since
    if (until := _midnight(sent["until"], zone)) is not None:
        asked["until"] = until + timedelta(days=1)
    return sent, asked


def _leaves_sign_ins_out(sent: Mapping[str, str]) -> bool:
    """Return whether sign-ins are left out: there are many of them, so they are shown where they are asked for."""
    return sent["kind"] != EVERYTHING and sent["kind"] not in KINDS and not sent["request_id"]


def _midnight(text: str, zone: tzinfo) -> datetime | None:
    """Return when a day begins; None where the text is no date."""
    try:
        day = parse_date(text)
    except ValueError:
        return None
    return None if day is None else datetime.combine(day, time.min, tzinfo=zone)


@page
@require_safe
def audit(request: HttpRequest) -> HttpResponseBase:
    """Show what people did (``?who=&kind=&what=&since=&until=&request_id=&before=<id>``).

    Without ``kind`` sign-ins are left out; ``kind=all`` shows them too.
    """
    require_admin(request)
    sent, asked = _filters(request)
    rows = audit_list(request.user, **asked)
    before = request.GET.get("before", "")
    if before.isdigit() and len(before) < 18:
        rows = rows.filter(pk__lt=int(before))
    found = [audit_row(event) for event in rows[: ON_A_PAGE + 1]]
    shown = found[:ON_A_PAGE]
    device = device_word(device_kinds(request.user))
    lines: list[AuditLine] = [
        {**row, "changes": audit_changes(row, device), "words": _words(row, device)} for row in shown
    ]
    context = {
        "rows": lines,
        "sent": sent,
        "is_filtered": any(value for value in sent.values() if value != EVERYTHING),
        "without_sign_ins": _leaves_sign_ins_out(sent),
        "everything": EVERYTHING,
        "kinds": KINDS.items(),
        "before": shown[-1]["id"] if len(found) > ON_A_PAGE else None,
        "is_first": not before,
    }
    return render(request, "admin/audit.html", context)


def _said(value: object) -> str:
    """Return a JSON value of an event as text of the file."""
    if value is None or value == "":
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _words(row: AuditRow, device: DeviceWord) -> list[Part]:
    """Return the sentence with the cluster's word for its devices; names stay as they are."""
    names = [value for value in row["data"].values() if isinstance(value, str)]
    return [part if part.href else replace(part, text=device.said(part.text, names=names)) for part in sentence(row)]


@page
@require_safe
def audit_file(request: HttpRequest, kind: str) -> HttpResponseBase:
    """Return the filtered list as a file, ``csv`` or ``json``."""
    require_admin(request)
    if kind not in ("csv", "json"):
        raise NotFound("file")
    _, asked = _filters(request)
    rows = (audit_row(event) for event in audit_list(request.user, **asked)[:EXPORTED_MOST].iterator(1_000))
    lines, content_type = (_csv(rows), "text/csv") if kind == "csv" else (_json(rows), "application/json")
    response = StreamingHttpResponse(lines, content_type=f"{content_type}; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="audit.{kind}"'
    return response


class _Line:
    """A file whose ``write`` returns the text: a line of the CSV."""

    def write(self, text: str) -> str:
        return text


def _csv(rows: Iterator[AuditRow]) -> Iterator[str]:
    writer = csv.writer(_Line())
    yield writer.writerow(COLUMNS)
    for row in rows:
        yield writer.writerow([_cell(_said(row[name])) for name in COLUMNS])


def _cell(text: str) -> str:
    """Return text that a spreadsheet does not take for a formula."""
    return f"'{text}" if text.startswith(FORMULA) else text


def _json(rows: Iterator[AuditRow]) -> Iterator[str]:
    yield "["
    for place, row in enumerate(rows):
        yield (",\n" if place else "\n") + json.dumps(row, ensure_ascii=False)
    yield "\n]\n"
