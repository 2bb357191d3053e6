"""Reads of profiles: how kinds of jobs react to cores, memory and GPUs.

A user sees a measured profile when that user sees one of its jobs, since its name is the command. Published and given
profiles are seen by every user who is signed in.
"""

from django.db.models import Count, Q, QuerySet

from scheduler.core.model.errors import NotFound
from scheduler.core.model.profile import demand, parse_profile
from scheduler.core.performance.optimistic import rate_at
from scheduler.models import Measurement, Profile
from scheduler.selectors.jobs.profile_rows import LiveRateRow, MeasuredProfile, ProfileDetail, ProfileRow, SpeedMatrix
from scheduler.selectors.times import iso
from scheduler.selectors.visibility import Actor, is_admin, jobs_visible


def profile_list(user: Actor) -> list[ProfileRow]:
    """Return the profiles that ``user`` may see, by name."""
    rows = _visible(user).order_by("fingerprint")
    return [_row(profile) for profile in rows]


def profile_detail(user: Actor, fingerprint: str) -> ProfileDetail:
    """Return one profile with its curves and how it was measured.

    Raises:
        NotFound: There is none, or ``user`` may not see it.
    """
    profile = None if "\x00" in fingerprint else _visible(user).filter(fingerprint=fingerprint).first()
    if profile is None:
        raise NotFound(f"There is no profile {fingerprint[:80]!r}.")
    return {
        **_row(profile),
        "cpus_per_gpu": profile.cpus_per_gpu,
        "memory_bytes_per_gpu": profile.memory_bytes_per_gpu,
        "relative_speed": profile.relative_speed,
        "scaling": profile.scaling,
        "spread": profile.spread,
        "rates": [{"cpus_per_gpu": cpus, "steps_per_s": rate} for cpus, rate in profile.rates],
        "live_rates": [_live(row) for row in profile.live_rates],
        "evidence": profile.evidence,
    }


def profiles_measured() -> dict[str, MeasuredProfile]:
    """Return the curves of everything that was measured, by fingerprint, as the simulator reads them."""
    return {
        profile.fingerprint: {
            **_matrix(profile),
            "scaling": profile.scaling,
            "spread": profile.spread,
            "skew": profile.skew,
            "model": profile.model,
            "steps_per_s": rate_at(dict(profile.rates), profile.evidence["share_cpus"]),
        }
        for profile in Profile.objects.filter(source="measured").exclude(rates=[]).order_by("fingerprint")
    }


def _visible(user: Actor) -> QuerySet[Profile]:
    if not (user.is_authenticated and user.is_active):
        return Profile.objects.none()
    found = Profile.objects.annotate(num_jobs=Count("job"))
    if is_admin(user):
        return found
    seen = jobs_visible(user).filter(profile__isnull=False).values("profile_id")
    return found.filter(Q(pk__in=seen) | ~Q(source="measured"))


def _row(profile: Profile) -> ProfileRow:
    best = demand(parse_profile({"relative_speed": [], **_matrix(profile)}), num_gpus=1)
    is_known = bool(profile.relative_speed)
    return {
        "fingerprint": profile.fingerprint,
        "model": profile.model,
        "origin": profile.source,
        "is_measured": is_known,
        "measured_at": iso(profile.measured_at),
        "measured_cpus": profile.measured_cpus,
        "cost_s": profile.cost_s,
        "measure_again": profile.measure_again,
        "is_being_measured": Measurement.objects.filter(
            profile=profile, measured_at=None, attempt__ended_at=None
        ).exists(),
        "best_cpus_per_gpu": best.cpus if is_known else None,
        "best_memory_bytes_per_gpu": best.memory_bytes if is_known else None,
        "skew": profile.skew,
        "num_jobs": profile.num_jobs,  # type: ignore[attr-defined]  # annotated by ``_visible``
    }


def _matrix(profile: Profile) -> SpeedMatrix:
    return {
        "cpus_per_gpu": profile.cpus_per_gpu,
        "memory_bytes_per_gpu": profile.memory_bytes_per_gpu,
        "relative_speed": profile.relative_speed,
    }


def _live(row: list[float]) -> LiveRateRow:
    gpus, servers, cpus, rate, attempts = row
    return {
        "num_gpus": int(gpus),
        "num_servers": int(servers),
        "cpus_per_gpu": cpus,
        "steps_per_s": rate,
        "attempts": int(attempts),
    }
