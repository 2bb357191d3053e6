"""How much speed a job loses when spread over several servers: measured, or modelled from its largest tensor."""

from dataclasses import dataclass

from frontend.components.formats import counted, number, percent
from frontend.pages.jobs.subject import Subject
from scheduler.core.model.profile import Profile, locality, parse_profile
from scheduler.selectors.jobs.profile_rows import ProfileDetail

SMALL_LOSS_FRAC = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadCost:
    """A card: the finding, what it is known from, and the speed by number of servers."""

    title: str
    sub: str
    rows: list[tuple[str, str]]


def spread_cost_of(subject: Subject) -> SpreadCost | None:
    """Return the card; None for a job that is always on one server because it has one device."""
    resources = subject.detail["spec"]["resources"]
    gpus = int(resources["max_gpus"] or resources["gpus"])
    if gpus < 2:
        return None
    known = _known(subject.profile) if subject.profile else None
    most = max(2, min(int(resources["max_servers"]), gpus))
    if known is None or (known.skew is None and not known.spread):
        return SpreadCost(title="What several servers cost it is not known", sub=_unknown(subject, most), rows=[])
    speeds = {servers: locality(known, num_servers=servers, num_gpus=gpus) for servers in range(1, min(most, 8) + 1)}
    loss = 1.0 - speeds[2]
    relaxes = "The scheduler may spread it." if loss <= SMALL_LOSS_FRAC else "It is better kept together."
    source = "Measured on attempts of such jobs." if known.spread else "From the share of its largest tensor."
    return SpreadCost(
        title=f"It loses {percent(loss)} on 2 servers" if loss > 0 else "It loses nothing on 2 servers",
        sub=f"{source} {relaxes}",
        rows=[(counted(servers, "server"), f"{number(speed, 2)} of its speed") for servers, speed in speeds.items()],
    )


def _known(profile: ProfileDetail) -> Profile:
    return parse_profile({"skew": profile["skew"], "spread": profile["spread"]})


def _unknown(subject: Subject, most: int) -> str:
    if int(subject.detail["spec"]["resources"]["max_servers"]) <= 1:
        return f"It asks to be on one server, so nothing is lost. It would have to run on {most} to be measured."
    return "It is measured as soon as attempts have run on one server and on several."
