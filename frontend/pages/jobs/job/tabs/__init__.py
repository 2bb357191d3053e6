"""The tabs of a job's page: one file each, with one function that returns its template variables, and one line here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from frontend.pages.jobs.job.tabs import attempts, events, files, logs, metrics, overview, placement, profile, spec, why
from frontend.pages.jobs.subject import Subject


@dataclass(frozen=True, slots=True, kw_only=True)
class Tab:
    """One tab.

    Attributes:
        key: Last part of its URL and of its template's name; the overview has no part of its own.
        context: Returns the variables of its template.
        count: Returns the number beside its label; None for none.
        group: What stands in the bar for it and others together; empty where it stands there itself.
    """

    key: str
    label: str
    context: Callable[[Subject], Mapping[str, object]]
    count: Callable[[Subject], int | None] = lambda subject: None
    group: str = ""


TABS: dict[str, Tab] = {
    tab.key: tab
    for tab in (
        Tab(key="overview", label="Overview", context=overview.context),
        Tab(key="why", label="Why and when", context=why.context),
        Tab(key="logs", label="Logs", context=logs.context),
        Tab(key="files", label="Files", context=files.context, count=files.count),
        Tab(key="metrics", label="Metrics", context=metrics.context, group="Resources"),
        Tab(key="placement", label="Placement", context=placement.context, group="Resources"),
        Tab(key="profile", label="Profile", context=profile.context, group="Resources"),
        Tab(key="events", label="Events", context=events.context, count=events.count, group="History"),
        Tab(key="attempts", label="Attempts", context=attempts.context, count=attempts.count, group="History"),
        Tab(key="spec", label="Spec", context=spec.context, group="History"),
    )
}


def bar_of(tab: str) -> list[Tab]:
    """Return the tabs of the bar: of each group the one that is open, else its first."""
    bar: dict[str, Tab] = {}
    for item in TABS.values():
        name = item.group or item.label
        if name not in bar or item.key == tab:
            bar[name] = item
    return list(bar.values())


def parts_of(tab: str) -> list[Tab]:
    """Return the tabs of the group that is open; none where a tab stands alone."""
    group = TABS[tab].group
    return [item for item in TABS.values() if group and item.group == group]
