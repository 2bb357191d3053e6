"""Filters and pages of the job list, read from its URL.

The URL holds everything: reload or send it and the same list comes. A page begins after a job number, not at an offset,
so rows do not slip from one page to the next while jobs arrive.
"""

from dataclasses import dataclass

from django.db.models import QuerySet
from django.http import HttpRequest, QueryDict

from frontend.pages.jobs.listing.columns import columns_in, columns_text
from scheduler.core.model.lifecycle import PREPARING, TERMINAL, JobState
from scheduler.models import Job
from scheduler.selectors.jobs.listing import JobFilters, job_list

PAGE_JOBS = 50
MINE = "me"
PAGES_MOST = 200  # of a sorted list, whose pages are counted: a filter finds more
# What a sent list may be sorted by, as its URL says it, and the column that the selector orders by.
SORTS = {"name": "name", "gpus": "num_gpus", "priority": "priority", "submitted": "submitted_at"}
# Words that stand for several states, and their label in the list's head.
GROUPS: dict[str, tuple[str, tuple[JobState, ...]]] = {
    "": ("All", ()),
    "active": ("Active", tuple(state for state in JobState if state not in TERMINAL)),
    "queued": ("Queued", (JobState.QUEUED,)),
    PREPARING: ("Preparing", ()),
    "parked": ("Parked", (JobState.PARKED,)),
    "running": ("Running", (JobState.LAUNCHING, JobState.RUNNING, JobState.PREEMPTING, JobState.SUSPENDING)),
    "suspended": ("Suspended", (JobState.SUSPENDED,)),
    "completed": ("Completed", (JobState.COMPLETED,)),
    "failed": ("Failed", (JobState.FAILED,)),
    "cancelled": ("Cancelled", (JobState.CANCELLED,)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ListQuery:
    """The filters as the URL has them.

    Attributes:
        state: Key of GROUPS, or a single state.
        owner: User name; ``me`` is the reader.
        older_than, newer_than: Job number that the page begins after; at most one is set.
        is_idle: Whether only running jobs are meant whose devices do nothing.
        columns: Keys of the columns that are shown.
        sort: Key of SORTS, ``-`` in front for largest first; empty for the newest first.
        page: Of a sorted list, from 1.
        problem: One sentence on what of the URL was not understood.
    """

    state: str
    queue: str
    owner: str
    search: str
    older_than: int | None
    newer_than: int | None
    is_idle: bool
    columns: tuple[str, ...]
    problem: str
    sort: str = ""
    page: int = 1

    @property
    def is_narrowed(self) -> bool:
        """Return whether any filter is set."""
        return bool(self.state or self.queue or self.owner or self.search or self.is_idle)

    @property
    def columns_text(self) -> str:
        """Return the columns as the URL has them; empty for the usual ones."""
        return columns_text(self.columns)

    def filters(self, request: HttpRequest) -> JobFilters:
        """Return what the selector takes."""
        return JobFilters(
            states=GROUPS[self.state][1] if self.state in GROUPS else (JobState(self.state),),
            is_preparing=self.state == PREPARING,
            but_preparing=self.state == "queued",  # they are counted as preparing
            queue=self.queue,
            owner=request.user.get_username() if self.owner == MINE else self.owner,
            search=self.search,
            is_idle=self.is_idle,
            ordering=self.ordering,
        )

    @property
    def ordering(self) -> str:
        """Return what the selector orders by."""
        sign, key = ("-", self.sort[1:]) if self.sort.startswith("-") else ("", self.sort)
        return f"{sign}{SORTS[key]}" if key else "-number"

    def rest_filters(self, request: HttpRequest) -> dict[str, str]:
        """Return the same filters as the REST API and the command call them, without unset ones."""
        chosen = self.filters(request)
        named = {
            "state": PREPARING if chosen.is_preparing else ",".join(chosen.states),
            "queue": chosen.queue,
            "owner": chosen.owner,
            "search": chosen.search,
            "idle": "true" if chosen.is_idle else "",
        }
        return {name: value for name, value in named.items() if value}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsPage:
    """One page of a list and the numbers where the pages beside it begin; None where there is none."""

    jobs: list[Job]
    older_than: int | None
    newer_than: int | None


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None


def _text(query: QueryDict, name: str, most: int) -> str:
    return query.get(name, "").replace("\x00", "").strip()[:most]


def list_query(query: QueryDict) -> ListQuery:
    """Return the filters in a query string; a state that does not exist is named in ``problem``."""
    state = _text(query, "state", 20)
    known = state in GROUPS or state in set(JobState)
    older = _number(query.get("older_than", ""))
    columns, column_problem = columns_in(query)
    sort, page = _text(query, "sort", 20), _number(query.get("page", "")) or 1
    return ListQuery(
        state=state if known else "",
        queue=_text(query, "queue", 120),
        owner=_text(query, "owner", 150),
        search=_text(query, "search", 80),
        older_than=older,
        newer_than=_number(query.get("newer_than", "")) if older is None else None,
        is_idle=query.get("idle") == "true",
        columns=columns,
        sort=sort if sort.removeprefix("-") in SORTS else "",
        page=min(page, PAGES_MOST),
        problem=_problem(query, state, known=known) or column_problem,
    )


# Every name that the list reads of its URL.
KNOWN = frozenset(["state", "queue", "owner", "search", "idle", "sort", "page", "columns", "older_than", "newer_than"])
NUMBERS = ("older_than", "newer_than", "page")


def _problem(query: QueryDict, state: str, *, known: bool) -> str:
    """Return the sentence about what of a URL is left out; empty where all is understood."""
    if not known:
        return f"{state} is not a state. All states are shown."
    if strange := next((name for name in query if name not in KNOWN), ""):
        return f"{strange[:40]} is no filter of this list and is left out. It has state, queue, owner, search, idle."
    if wrong := next((name for name in NUMBERS if query.get(name) and _number(query.get(name, "")) is None), ""):
        return f"{wrong} must be a number, not {query.get(wrong, '')[:20]}. The list begins at its first page."
    if (sort := query.get("sort", "")) and sort.removeprefix("-") not in SORTS:
        return f"{sort[:20]} is no order of this list. Orders are {', '.join(SORTS)}. The newest jobs come first."
    if query.get("idle", "true") not in ("true", ""):
        return f"idle must be true, not {query.get('idle', '')[:20]}. All jobs are shown."
    return ""


def _sorted_page(jobs: QuerySet[Job], page: int) -> JobsPage:
    """Return one page of a list that is sorted by a column; pages are counted."""
    first = (page - 1) * PAGE_JOBS
    found = list(jobs[first : first + PAGE_JOBS + 1])
    more = page + 1 if len(found) > PAGE_JOBS and page < PAGES_MOST else None
    return JobsPage(jobs=found[:PAGE_JOBS], older_than=more, newer_than=page - 1 or None)


def jobs_page(request: HttpRequest, query: ListQuery) -> JobsPage:
    """Return one page of the list, newest first, by two queries."""
    jobs = job_list(request.user, query.filters(request))
    if query.sort:
        return _sorted_page(jobs, query.page)
    if query.newer_than is not None:
        return _towards_newer(jobs, query.newer_than)
    return _towards_older(jobs, query.older_than)


def _towards_older(jobs: QuerySet[Job], older_than: int | None) -> JobsPage:
    below = jobs if older_than is None else jobs.filter(number__lt=older_than)
    found = list(below.order_by("-number")[: PAGE_JOBS + 1])
    shown = found[:PAGE_JOBS]
    return JobsPage(
        jobs=shown,
        older_than=shown[-1].number if len(found) > PAGE_JOBS else None,
        newer_than=shown[0].number if shown and older_than is not None else None,
    )


def _towards_newer(jobs: QuerySet[Job], newer_than: int) -> JobsPage:
    found = list(jobs.filter(number__gt=newer_than).order_by("number")[: PAGE_JOBS + 1])
    if len(found) <= PAGE_JOBS:  # the newest page: show it whole
        return _towards_older(jobs, None)
    shown = found[:PAGE_JOBS][::-1]
    return JobsPage(jobs=shown, older_than=shown[-1].number, newer_than=shown[0].number)
