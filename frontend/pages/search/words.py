"""Pages and actions that can be jumped to, and what stands beside each thing that is found."""

from dataclasses import dataclass
from datetime import datetime, tzinfo
from enum import Enum, auto

from frontend.components.devices import DeviceWord
from frontend.components.formats import clock, counted, joined, number, percent
from frontend.components.times import as_time
from scheduler.selectors.search import JobHit, PersonHit, QueueHit, ServerHit


class Need(Enum):
    """Whom a page or an action is for."""

    ANY = auto()
    SUBMITS = auto()
    ASKS = auto()
    ADMIN = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A page, or an action that a page begins; ``about`` is searched too."""

    label: str
    about: str
    href: str
    icon: str
    need: Need = Need.ANY


PAGES = (
    Place(label="Overview", about="the cluster at a glance", href="/", icon="layout-dashboard"),
    Place(label="Jobs", about="list, filters, kept views", href="/jobs", icon="list"),
    Place(label="Queues", about="quota, members, usage", href="/queues", icon="layers"),
    Place(label="Cluster", about="servers, GPU map, utilization", href="/cluster", icon="server"),
    Place(label="Rounds", about="what the scheduler decided", href="/rounds", icon="history"),
    Place(label="What happened", about="events of the last day", href="/events", icon="history"),
    Place(label="Experiments", about="searches over parameters", href="/experiments", icon="gauge"),
    Place(label="What-if", about="simulates a change first", href="/whatif", icon="flask-conical", need=Need.ASKS),
    Place(label="Wall", about="one screen for the room", href="/wall", icon="monitor"),
    Place(label="Profile and tokens", about="password, mails, tokens", href="/me", icon="key-round"),
    Place(label="Secrets", about="values that jobs name", href="/secrets", icon="lock"),
    Place(label="Webhooks", about="events sent elsewhere", href="/webhooks", icon="bell", need=Need.ASKS),
    Place(label="Policy and settings", about="Admin", href="/admin", icon="settings", need=Need.ADMIN),
    Place(label="Shadow policy", about="Admin: plans, never acts", href="/admin/shadow", icon="eye", need=Need.ADMIN),
    Place(label="Users", about="Admin: roles, tokens", href="/admin/users", icon="users", need=Need.ADMIN),
    Place(label="Audit", about="Admin: who changed what", href="/admin/audit", icon="list", need=Need.ADMIN),
    Place(label="Screens", about="Admin: links to the wall", href="/admin/walls", icon="monitor", need=Need.ADMIN),
    Place(label="Kept files", about="Admin: disk, retention", href="/admin/kept", icon="hard-drive", need=Need.ADMIN),
)
ACTIONS = (
    Place(label="New job", about="submit by form or YAML", href="/jobs/new", icon="plus", need=Need.SUBMITS),
    Place(
        label="New experiment", about="search over parameters", href="/experiments/new", icon="gauge", need=Need.SUBMITS
    ),
    Place(
        label="Compare policies", about="simulates several at once", href="/whatif/new", icon="gauge", need=Need.ASKS
    ),
    Place(
        label="Pause or resume scheduling\N{HORIZONTAL ELLIPSIS}",
        about="asks first",
        href="/admin",
        icon="pause",
        need=Need.ADMIN,
    ),
)


def count_words(count: int) -> str:
    """Return how many things were found."""
    return counted(count, "result") if count else "no result"


def nothing_words(query: str) -> str:
    """Return what stands there when nothing matches."""
    return f"Nothing is called {query}."


def job_words(hit: JobHit, now: datetime, zone: tzinfo) -> str:
    """Return how far a job is, or how long its line."""
    parts = []
    if hit["progress_frac"] is not None:
        parts.append(percent(hit["progress_frac"]))
    if hit["ends_at"]:
        parts.append(f"ends about {clock(as_time(hit['ends_at']), now, zone)}")
    if hit["ahead"] is not None:
        ahead = hit["ahead"]
        parts.append("next in line" if not ahead else f"{counted(ahead, 'job')} {'is' if ahead == 1 else 'are'} ahead")
    return ", ".join(parts)


def server_words(hit: ServerHit) -> str:
    """Return what is free on a server and what is broken, or its state where it takes no jobs."""
    if hit["state"] != "up":
        return hit["state"]
    broken = f", {number(hit['broken_gpus'])} broken" if hit["broken_gpus"] else ""
    return f"{number(hit['free_gpus'])} free{broken}"


def queue_words(hit: QueueHit, device: DeviceWord) -> str:
    """Return what a queue holds of its quota."""
    return f"{number(hit['held_gpus'])} of {device.counted(hit['quota_gpus'])}"


def person_words(hit: PersonHit) -> str:
    """Return what a person's jobs do now."""
    runs, waits = hit["running_jobs"], hit["waiting_jobs"]
    parts = [
        f"{counted(runs, 'job')} {'runs' if runs == 1 else 'run'}" if runs else "",
        f"{counted(waits, 'job')} {'waits' if waits == 1 else 'wait'}" if waits else "",
    ]
    return joined([part for part in parts if part])
