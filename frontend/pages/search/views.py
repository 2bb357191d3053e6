"""One answer for the search page and the command palette: what matches, in groups, each a link."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from urllib.parse import quote

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from frontend.components.devices import DeviceWord, device_word
from frontend.components.formats import joined
from frontend.components.viewer import now_utc, viewer_zone
from frontend.pages.search import words
from frontend.pages.search.words import ACTIONS, PAGES, Need, Place
from scheduler.models.queue import Role
from scheduler.selectors.cluster.servers import device_kinds
from scheduler.selectors.search import KINDS, MOST_LETTERS, Found, Kind, search
from scheduler.selectors.visibility import Access, access_of

PREFIXES: dict[str, tuple[Kind, ...]] = {"#": ("jobs",), "@": ("people",), ">": ()}
FEW = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One line: a link with what it is, how it was found, and what one would look up anyway."""

    href: str
    label: str
    about: str = ""
    right: str = ""
    icon: str = ""
    slot: int | None = None
    state: str = ""
    is_danger: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Lines of one kind."""

    key: str
    label: str
    hits: Sequence[Hit]


@require_safe
def search_page(request: HttpRequest) -> HttpResponse:
    """Show what ``?q=`` means: ``>`` in front for actions alone, ``@`` for people, ``#`` for jobs."""
    asked = request.GET.get("q", "").replace("\x00", "").strip()[:MOST_LETTERS]
    prefix = asked[:1] if asked[:1] in PREFIXES else ""
    text, now, zone = asked.removeprefix(prefix).strip(), now_utc(), viewer_zone(request)
    access, device = access_of(request.user), device_word(device_kinds(request.user))
    found = search(request.user, text, now, kinds=PREFIXES.get(prefix, KINDS))
    groups = _things(found, access, device, now, zone)
    if not prefix:
        groups.append(_places("pages", "Pages", PAGES, text, access, device))
    if prefix in ("", ">"):
        groups.append(_actions(found, text, access, device, whole=prefix == ">"))
    groups = [group for group in groups if group.hits]
    count = sum(len(group.hits) for group in groups)
    context = {
        "asked": asked,
        "text": text,
        "groups": groups,
        "count_words": words.count_words(count) if text else "",
        "nothing": words.nothing_words(asked) if not count else "",
    }
    return render(request, "search/search.html", context)


def _things(found: Found, access: Access, device: DeviceWord, now: datetime, zone: tzinfo) -> list[Group]:
    jobs = [
        Hit(
            href=f"/jobs/J-{hit['number']}",
            label=hit["name"],
            about=f"J-{hit['number']}",
            right=words.job_words(hit, now, zone),
            slot=hit["color_slot"],
            state=hit["state"],
        )
        for hit in found["jobs"]
    ]
    if found["more_jobs"]:
        jobs.append(Hit(href=f"/jobs?search={quote(found['query'])}", label="All jobs that match", icon="list"))
    return [
        Group(key="jobs", label="Jobs", hits=jobs),
        Group(
            key="servers",
            label="Servers",
            hits=[
                Hit(href=f"/cluster/{hit['name']}", label=hit["name"], right=words.server_words(hit), icon="server")
                for hit in found["servers"]
            ],
        ),
        Group(
            key="queues",
            label="Queues",
            hits=[
                Hit(
                    href=reverse("queue", args=[hit["name"]]),
                    label=hit["name"],
                    right=words.queue_words(hit, device),
                    slot=hit["color_slot"],
                )
                for hit in found["queues"]
            ],
        ),
        Group(key="people", label="People", hits=_people(found, access)),
    ]


def _people(found: Found, access: Access) -> list[Hit]:
    return [
        Hit(
            href=reverse("admin-user", args=[hit["username"]])
            if access.is_admin
            else f"/jobs?owner={quote(hit['username'])}",
            label=hit["username"],
            about=joined(hit["queues"][:3]),
            right=words.person_words(hit),
            icon="user",
        )
        for hit in found["people"]
    ]


def _may(access: Access, need: Need) -> bool:
    if need is Need.SUBMITS:
        return access.is_admin or any(role is not Role.VIEWER for role in access.roles.values())
    return need is Need.ANY or access.is_admin or (need is Need.ASKS and access.asks_what_if)


def _places(
    key: str, label: str, places: Sequence[Place], text: str, access: Access, device: DeviceWord, most: int = FEW
) -> Group:
    """Return the places that match by label first, then those whose description does; all for no letters."""
    wanted = text.lower()
    open_ones = [place for place in places if _may(access, place.need)]
    by_label = [place for place in open_ones if wanted in place.label.lower()]
    by_about = [place for place in open_ones if place not in by_label and wanted in place.about.lower()]
    found = (*by_label, *by_about)
    hits = [Hit(href=one.href, label=one.label, about=device.said(one.about), icon=one.icon) for one in found]
    return Group(key=key, label=label, hits=hits[:most] if wanted else hits)


def _actions(found: Found, text: str, access: Access, device: DeviceWord, *, whole: bool) -> Group:
    """Return what can be done: with the servers that match first, where an admin asks."""
    group = _places("actions", "Actions", ACTIONS, text, access, device, most=len(ACTIONS) if whole else FEW)
    drains = [
        Hit(
            href=reverse("server-drain", args=[hit["name"]]),
            label=f"Drain {hit['name']}\N{HORIZONTAL ELLIPSIS}",
            about="its jobs move",
            right="asks first",
            icon="log-out",
            is_danger=True,
        )
        for hit in found["servers"]
        if access.is_admin and hit["state"] == "up"
    ]
    return Group(key=group.key, label=group.label, hits=[*drains, *group.hits])
