"""What every page shows around its content: navigation with counts, queues, freshness, theme."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from frontend.components.devices import device_word
from frontend.components.formats import joined
from frontend.components.states import looks_for_scripts
from frontend.components.times import as_time
from frontend.components.viewer import now_utc, viewer_theme, viewer_zone
from scheduler.core.model.lifecycle import TERMINAL, JobState
from scheduler.models import Server
from scheduler.selectors.cluster.servers import servers_in_short
from scheduler.selectors.visibility import Access, access_of
from scheduler.services.cluster.settings import cluster_row

UNDER_WAY = sorted(set(JobState) - TERMINAL)  # few among many: an index finds them, but not what they are not


@dataclass(frozen=True, slots=True, kw_only=True)
class NavItem:
    """One line of the left rail."""

    path: str
    icon: str
    label: str
    count: int | None
    current: bool


def _nav(request: HttpRequest, access: Access, counts: dict[str, int]) -> list[NavItem]:
    items = [
        ("/", "layout-dashboard", "Overview"),
        ("/jobs", "list", "Jobs"),
        ("/queues", "layers", "Queues"),
        ("/cluster", "server", "Cluster"),
        ("/rounds", "history", "Rounds"),
        ("/experiments", "gauge", "Experiments"),
    ]
    if access.asks_what_if:
        items.append(("/whatif", "flask-conical", "What-if"))
    if access.is_admin:
        items.append(("/admin", "settings", "Admin"))
    return [
        NavItem(
            path=path,
            icon=icon,
            label=label,
            count=counts.get(label),
            current=request.path == path or (path != "/" and request.path.startswith(path + "/")),
        )
        for path, icon, label in items
    ]


def _queue_of(request: HttpRequest) -> str:
    """Return the queue that the page is of, or that filters it; empty for pages of all queues.

    Never the one that was visited before: the page shows what it is about.
    """
    match = request.resolver_match
    if match is not None and (match.url_name or "").split("-")[0] == "queue":
        return str(match.kwargs.get("name", ""))
    return request.GET.get("queue", "")


def _frame(request: HttpRequest) -> dict[str, object]:
    user = request.user
    cluster = cluster_row()
    servers = servers_in_short(user)
    access = access_of(user)  # read once: it is on every page
    queues = list(access.queues())
    counts = {
        "Jobs": access.jobs().filter(state__in=UNDER_WAY).count(),
        "Queues": len(queues),
        "Cluster": len(servers),
    }
    finished_at = cluster.round_finished_at
    period = timedelta(seconds=settings.ROUND_S)
    chosen = _queue_of(request)
    return {
        "nav": _nav(request, access, counts),
        "queues": queues,
        "leads": access.asks_what_if,
        "queue": next((queue for queue in queues if queue.name == chosen), None),
        "round": cluster.round_number,
        "round_finished_at": finished_at,
        "next_round_at": finished_at + period if finished_at and not cluster.paused else None,
        "stale": bool(finished_at and now_utc() - finished_at > 3 * period + timedelta(seconds=5)),
        "paused": cluster.paused,
        "failing": [
            {"step": step, "since": as_time(failure["since"]), "error": failure["error"] if access.is_admin else ""}
            for step, failure in cluster.failing_steps.items()
        ],
        "claims": joined([server.name for server in servers if server.claimed_size]) if access.is_admin else "",
        "policy": f"{cluster.policy} · {cluster.locality} · {cluster.mechanism}",
        "round_s": settings.ROUND_S,
        "device": device_word(server.told_device_kind for server in servers),
        "simulated": simulated_words(servers),
    }


def simulated_words(servers: Sequence[Server]) -> str:
    """Return what every page says where servers are simulated; empty where none is."""
    simulated = sum(server.is_simulated for server in servers)
    if not simulated:
        return ""
    if simulated == len(servers):
        return "Simulated cluster: no server exists and no job computes anything. What the scheduler decides is real."
    return f"{simulated} of {len(servers)} servers are simulated: no job computes anything on them."


def shell(request: HttpRequest) -> dict[str, object]:
    """Return the template variables of the frame. They cost queries only where a template reads them."""
    user = getattr(request, "user", None)  # there is none yet where the name of the host is refused
    return {
        "theme": viewer_theme(request),
        "zone": str(viewer_zone(request)),
        "state_looks": looks_for_scripts(),
        "frame": SimpleLazyObject(lambda: _frame(request)) if user is not None and user.is_authenticated else None,
    }
