"""Profile: how the job reacts to cores and memory, what that is known from, and what it cost to find out."""

from typing import TypedDict

from frontend.components.charts import Chart, Json, layout, token
from frontend.components.devices import DeviceWord
from frontend.components.formats import number
from frontend.pages.jobs.subject import Subject
from scheduler.core.performance.optimistic import settled
from scheduler.selectors.jobs.profile_rows import ProfileDetail

HEIGHT = 240


class ProfileTab(TypedDict):
    """The variables of its template."""

    profile: ProfileDetail | None
    curve: Chart | None
    asks_auto: bool
    asked_cpus: float | str
    is_admin: bool


def context(subject: Subject) -> ProfileTab:
    """Return the variables of the template."""
    profile = subject.profile
    known = profile if profile is not None and profile["is_measured"] else None
    asked = subject.detail["spec"]["resources"]["cpus"]
    return {
        "profile": profile,
        "curve": _curve(known, subject.device) if known else None,
        "asks_auto": asked == "auto",
        "asked_cpus": asked,
        "is_admin": bool(subject.request.user.is_superuser),
    }


def _curve(profile: ProfileDetail, device: DeviceWord) -> Chart:
    """Return speed by cores with enough memory, the line of the model and the measured points on it."""
    cores = [float(value) for value in profile["cpus_per_gpu"]]
    speeds = [row[-1] for row in profile["relative_speed"]]
    points = _points(profile)
    best = profile["best_cpus_per_gpu"]
    figure: Json = {
        "data": [
            {
                "type": "scatter",
                "mode": "lines",
                "name": "modelled",
                "x": cores,
                "y": speeds,
                "line": {"color": token("accent"), "width": 2},
            },
            {
                "type": "scatter",
                "mode": "markers",
                "name": "measured",
                "x": [x for x, _ in points],
                "y": [y for _, y in points],
                "marker": {"color": token("accent"), "size": 8},
            },
        ],
        "layout": layout(
            height=HEIGHT,
            x={
                "rangemode": "tozero",
                "dtick": max(1, round(max(cores) / 8)),
            },
            y={"rangemode": "tozero"},
        ),
    }
    return Chart(
        id="profile-cores",
        title=f"Full speed takes {number(best)} {'core' if best == 1 else 'cores'} per {device.one}",
        sub=f"Speed by cores per {device.one}; 1 is the speed with its share of a server",
        figure=figure,
        table_head=(f"Cores per {device.one}", "Speed"),
        table_rows=[(number(x), f"{y:.2f}") for x, y in zip(cores, speeds, strict=True)],
        height=HEIGHT,
    )


def _points(profile: ProfileDetail) -> list[tuple[float, float]]:
    """Return the measured rates on the scale of the line."""
    rates = {point["cpus_per_gpu"]: point["steps_per_s"] for point in profile["rates"]}
    if not rates:
        return []
    clean = settled(rates)
    top, best = max(clean.values()), max(row[-1] for row in profile["relative_speed"])
    return [(cpus, round(rate / top * best, 4)) for cpus, rate in sorted(rates.items())]
