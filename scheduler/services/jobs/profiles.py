"""Profiles of jobs: found by fingerprint, measured while an attempt trains, refined by the rates of running jobs.

``cpus: auto`` in a spec asks for a measurement: the first attempt of a job without a profile is measured while it
trains, and the next job with the same fingerprint starts with the right demand.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from statistics import median
from typing import NamedTuple

from django.db import transaction
from django.db.models import Q

from agents.protocol.profile import Measured
from scheduler.core.model.errors import NotFound
from scheduler.core.performance.cache_model import MEMORY_BYTES_PER_S, Storage
from scheduler.core.performance.optimistic import Reading, Share, modelled, not_below, rate_at
from scheduler.core.spec.spec import JobSpec
from scheduler.models import Attempt, Job, Lease, Measurement, Profile, Sample
from scheduler.models.event import SampleScope
from scheduler.models.profile import ProfileEvidence
from scheduler.notify import request_round
from scheduler.services.events import event_record
from scheduler.services.jobs.state import job_event
from scheduler.services.permission import Doer, require_admin

AUTO_PREFIX = "auto-"
# Memory granted, relative to the peak seen.
MEMORY_ROOM = 1.25
# Start-up seconds without a steady rate, and the samples needed after them.
STARTING_S, LEAST_SAMPLES = 15.0, 10
# A measurement counts as one attempt; running jobs count as at most this many.
MOST_WEIGHT = 9


class LiveRate(NamedTuple):
    """Mean rate of running jobs with equal GPUs, servers and cores per GPU."""

    num_gpus: int
    num_servers: int
    cpus_per_gpu: float
    steps_per_s: float
    attempts: int

    @staticmethod
    def read(row: list[float]) -> "LiveRate":
        """Read a row of ``Profile.live_rates``."""
        gpus, servers, cpus, rate, attempts = row
        return LiveRate(int(gpus), int(servers), cpus, rate, int(attempts))


def fingerprint_of(spec: JobSpec) -> str:
    """Return the fingerprint of a spec: what its processes run, in which environment, but not with which resources."""
    code = [] if spec.code is None else [spec.code.manifest]
    python = [] if spec.python is None else [spec.python.to_json()]
    text = json.dumps([spec.command, spec.files, spec.env, *code, *python], sort_keys=True)
    return AUTO_PREFIX + hashlib.sha256(text.encode()).hexdigest()[:16]


def profile_for(spec: JobSpec) -> Profile | None:
    """Return the profile of a spec with automatic cores that names none, created when missing; None for other specs."""
    return profiles_for([spec])[0]


def profiles_for(specs: Sequence[JobSpec]) -> list[Profile | None]:
    """Return what ``profile_for`` does for each spec, by a few statements."""
    wanted = [fingerprint_of(spec) if spec.resources.cpus is None and not spec.profile else "" for spec in specs]
    auto = {fingerprint: spec for fingerprint, spec in zip(wanted, specs, strict=True) if fingerprint}
    known = Profile.objects.in_bulk(list(auto), field_name="fingerprint")
    missing = [fingerprint for fingerprint in auto if fingerprint not in known]
    if missing:
        new = [Profile(fingerprint=one, model=" ".join(auto[one].command)[:80]) for one in missing]
        Profile.objects.bulk_create(new, ignore_conflicts=True)  # another submit may have been faster
        known |= Profile.objects.in_bulk(missing, field_name="fingerprint")
    return [known[fingerprint] if fingerprint else None for fingerprint in wanted]


def profile_known(spec: JobSpec) -> Profile | None:
    """Return what ``profile_for`` would, but create nothing."""
    if spec.resources.cpus is not None:
        return None
    return Profile.objects.filter(fingerprint=fingerprint_of(spec)).first()


def measurements_begin(attempts: Sequence[Attempt]) -> None:
    """Have attempts measured whose profile is unknown, or measured at fewer cores than a free server has.

    Of each profile one attempt is measured at a time.
    """
    of_job = {attempt.job_id: attempt for attempt in attempts}
    due = Job.objects.filter(pk__in=of_job, spec__resources__cpus="auto").filter(
        Q(profile__source="measured") | Q(profile__measure_again=True)
    )
    rows = {
        pk: row for pk, *row in due.values_list("pk", "profile_id", "profile__measure_again", "profile__measured_cpus")
    }
    open_ones = Measurement.objects.filter(measured_at=None, attempt__ended_at=None)
    busy = set(open_ones.filter(profile__in={row[0] for row in rows.values()}).values_list("profile_id", flat=True))
    begun: list[Measurement] = []
    for job_id, attempt in of_job.items():
        profile_id, is_again, measured_cpus = rows.get(job_id, (None, False, 0))
        if profile_id is not None and profile_id not in busy:
            busy.add(profile_id)
            above = 0 if is_again else measured_cpus
            begun.append(Measurement(attempt=attempt, profile_id=profile_id, above_cpus=above))
    Measurement.objects.bulk_create(begun)


@transaction.atomic
def measurement_end(*, attempt: Attempt, told: Measured, peak_memory_bytes: int, at: datetime) -> bool:
    """Store the measurement of an attempt, once; return whether it was new."""
    row = Measurement.objects.select_related("profile").filter(attempt=attempt, measured_at=None).first()
    lease = Lease.objects.filter(attempt=attempt).select_related("server").order_by("-pk").first()
    if row is None or lease is None:
        return False
    if not Measurement.objects.filter(pk=row.pk, measured_at=None).update(measured_at=at, took_s=told.took_s):
        return False
    profile, gpus = row.profile, attempt.num_gpus
    new = {cores / gpus: rate for cores, rate in told.rates}
    kept = {} if profile.measure_again or profile.evidence.get("num_gpus") != gpus else dict(profile.rates)
    profile.rates = [[cpus, rate] for cpus, rate in sorted((kept | new).items())]
    server_gpus = max(1, lease.server.gpus.count())
    profile.evidence = {
        **{name: value for name, value in asdict(told).items() if name != "rates" and value is not None},
        "num_gpus": gpus,
        "server": lease.server.name,
        "share_cpus": lease.server.num_cpus / server_gpus,
        "share_memory_bytes": lease.server.memory_bytes / server_gpus,
        "peak_memory_bytes": max(peak_memory_bytes, profile.evidence.get("peak_memory_bytes", 0)),
        "has_ended": profile.evidence.get("has_ended", False),
    }
    if told.model_bytes and told.largest_tensor_bytes:
        profile.skew = told.largest_tensor_bytes / told.model_bytes
    profile.source, profile.measured_at, profile.measure_again = "measured", at, False
    profile.measured_cpus = max(told.free_cores, 0 if not kept else profile.measured_cpus)
    profile.cost_s += told.took_s
    _remodel(profile)
    profile.save()
    data = {"took_s": round(told.took_s, 1), "points": len(told.rates), "cores": told.free_cores}
    if told.error is not None:
        data["error"] = round(told.error, 4)
    # The caller's own row: a fresh one would leave the event count of that behind.
    job_event(job=attempt.job, kind="job_measured", at=at, actor="scheduler", reason="measured", data=data)
    request_round("profile")
    return True


@transaction.atomic
def profile_refine(*, attempt_id: str) -> None:
    """Add the rate and the peak memory of an ended attempt to its profile."""
    attempt = Attempt.objects.select_related("job__profile").get(pk=attempt_id)
    if attempt.job.profile_id is None or attempt.started_at is None or attempt.ended_at is None:
        return
    profile = Profile.objects.select_for_update().get(pk=attempt.job.profile_id)
    if profile.source != "measured" or not profile.rates:
        return
    live = _live_rate(attempt)
    if live is not None:
        profile.live_rates = _with(profile.live_rates, live)
    if attempt.end_cause == "completed" and attempt.peak_memory_bytes:
        peak = max(attempt.peak_memory_bytes, profile.evidence.get("peak_memory_bytes", 0))
        profile.evidence |= {"peak_memory_bytes": peak, "has_ended": True}
    _remodel(profile)
    profile.save()


def profile_measure_again(*, actor: Doer, fingerprint: str, at: datetime) -> Profile:
    """Have the next attempt of this profile measured anew.

    Raises:
        NotAllowed: ``actor`` is no admin.
        NotFound: There is no such profile.
    """
    require_admin(actor, "have profiles measured")
    with transaction.atomic():
        profile = Profile.objects.select_for_update().filter(fingerprint=fingerprint).first()
        if profile is None:
            raise NotFound(f"There is no profile {fingerprint[:80]!r}.")
        if not profile.measure_again:
            profile.measure_again = True
            profile.save(update_fields=["measure_again"])
            event_record(kind="profile", actor=actor, at=at, reason="measure_again", data={"profile": fingerprint})
    return profile


def _live_rate(attempt: Attempt) -> LiveRate | None:
    """Return the steady rate of an ended attempt; None when too little was reported."""
    assert attempt.started_at is not None
    assert attempt.ended_at is not None
    measured = Measurement.objects.filter(attempt=attempt).first()
    since = measured.measured_at if measured is not None and measured.measured_at is not None else attempt.started_at
    samples = Sample.objects.filter(
        scope=SampleScope.JOB,
        scope_id=attempt.job_id,
        at__gte=since + timedelta(seconds=STARTING_S),
        at__lte=attempt.ended_at,
    ).values_list("values__steps_per_s", flat=True)
    rates = [rate for rate in samples if rate]
    leases = list(Lease.objects.filter(attempt=attempt, num_gpus__gte=1).values_list("server_id", "cpu_ids"))
    if len(rates) < LEAST_SAMPLES or not leases:
        return None
    cores = sum(len(cpu_ids) for _, cpu_ids in leases)
    return LiveRate(
        num_gpus=attempt.num_gpus,
        num_servers=len({server for server, _ in leases}),
        cpus_per_gpu=cores / attempt.num_gpus,
        steps_per_s=median(rates),
        attempts=1,
    )


def _with(rows: list[list[float]], new: LiveRate) -> list[list[float]]:
    """Return the rows with one more attempt averaged in."""
    found = {(one.num_gpus, one.num_servers, one.cpus_per_gpu): one for one in map(LiveRate.read, rows)}
    key = (new.num_gpus, new.num_servers, new.cpus_per_gpu)
    old = found.get(key)
    if old is not None:
        weight = min(old.attempts, MOST_WEIGHT)
        rate = (old.steps_per_s * weight + new.steps_per_s) / (weight + 1)
        new = new._replace(steps_per_s=rate, attempts=old.attempts + 1)
    return [list(one) for _, one in sorted((found | {key: new}).items())]


def _remodel(profile: Profile) -> None:
    """Compute the curves from the measurement and the rates of running jobs."""
    told: ProfileEvidence = profile.evidence
    live = [LiveRate.read(row) for row in profile.live_rates]
    rates = _refined(dict(profile.rates), [one for one in live if one.num_gpus == told["num_gpus"]])
    share = Share(cpus=told["share_cpus"], memory_bytes=told["share_memory_bytes"])
    working_bytes = MEMORY_ROOM * told["peak_memory_bytes"] / told["num_gpus"]
    curves = modelled(rates=rates, working_bytes=max(1.0, working_bytes), reading=_reading(profile), share=share)
    if not told["has_ended"]:
        curves = not_below(curves, share.memory_bytes)
    profile.cpus_per_gpu = list(curves.cpus_per_gpu)
    profile.memory_bytes_per_gpu = list(curves.memory_bytes_per_gpu)
    profile.relative_speed = [list(row) for row in curves.relative_speed]
    profile.scaling, profile.spread = _scaling(live), _spread(live)


def _refined(rates: dict[float, float], live: list[LiveRate]) -> dict[float, float]:
    """Return the measured rates, moved towards those of running jobs.

    Only differences between core counts count: what slows all running jobs alike, such as neighbours, says nothing
    about cores.
    """
    ratios = {
        one.cpus_per_gpu: (one.steps_per_s / rate_at(rates, one.cpus_per_gpu), min(one.attempts, MOST_WEIGHT))
        for one in live
        if one.num_servers == 1
    }
    if not ratios:
        return rates
    common = sum(ratio * weight for ratio, weight in ratios.values()) / sum(weight for _, weight in ratios.values())
    moved = {
        cpus: rate_at(rates, cpus) * (1 + weight * ratio / common) / (1 + weight)
        for cpus, (ratio, weight) in ratios.items()
    }
    return rates | moved


def _reading(profile: Profile) -> Reading | None:
    told: ProfileEvidence = profile.evidence
    gpus = told["num_gpus"]
    if not (told.get("read_bytes_per_step") and told.get("dataset_bytes") and told.get("disk_bytes_per_s")):
        return None
    memory_bytes_per_s = told.get("memory_bytes_per_s") or MEMORY_BYTES_PER_S
    return Reading(
        bytes_per_step=told["read_bytes_per_step"] / gpus,
        dataset_bytes=told["dataset_bytes"] / gpus,
        storage=Storage(memory_bytes_per_s=memory_bytes_per_s / gpus, disk_bytes_per_s=told["disk_bytes_per_s"] / gpus),
    )


def _fastest(live: list[LiveRate]) -> dict[tuple[int, int], float]:
    """Return the best rate by (GPUs, servers), over all core counts."""
    found: dict[tuple[int, int], float] = defaultdict(float)
    for one in live:
        key = (one.num_gpus, one.num_servers)
        found[key] = max(found[key], one.steps_per_s)
    return found


def _scaling(live: list[LiveRate]) -> list[list[float]]:
    """Return the speed by GPUs, on one server, against one GPU; the mini-batch of a gang is the same at every size."""
    best = _fastest(live)
    one = best.get((1, 1))
    points = sorted((gpus, rate) for (gpus, servers), rate in best.items() if servers == 1)
    return [[gpus, round(rate / one, 4)] for gpus, rate in points] if one and len(points) > 1 else []


def _spread(live: list[LiveRate]) -> list[list[float]]:
    """Return the speed by GPUs on each server, against the same GPUs on one."""
    best = _fastest(live)
    found = {
        gpus / servers: round(rate / best[gpus, 1], 4)
        for (gpus, servers), rate in best.items()
        if servers > 1 and (gpus, 1) in best
    }
    return [[per_server, speed] for per_server, speed in sorted(found.items())]
