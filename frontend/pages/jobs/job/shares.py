"""Cores and memory of a job against its GPU-proportional share of its servers; or what it asks for while it waits."""

from collections.abc import Sequence
from dataclasses import dataclass

from frontend.components.formats import MINUS, clock, data_size, duration, joined, number, percent, signed
from frontend.pages.jobs.charts.progress import newest
from frontend.pages.jobs.subject import Subject
from scheduler.core.spec.launch import StoredResources, launch_words, stored_per
from scheduler.selectors.jobs.rows import AttemptRow, SeatRow

SAME_CORES = 0.05
SAME_BYTES = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One line: what, how much, against which even share, and the difference."""

    label: str
    value: str
    against: str = ""
    difference: str = ""
    tone: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    """A card of pairs; the title says what they show."""

    title: str
    sub: str
    pairs: list[Pair]


def holdings_of(subject: Subject) -> Holdings:
    """Return what the job holds now, or what it asks for."""
    attempt = subject.detail["attempt"]
    if subject.is_holding and attempt:
        return _held(subject, attempt)
    return _asked(subject)


def _held(subject: Subject, attempt: AttemptRow) -> Holdings:
    seats = attempt["servers"]
    cpus, memory = sum(seat["cpus"] for seat in seats), sum(seat["memory_bytes"] for seat in seats)
    even_cpus, even_memory = _even_share(subject, seats)
    more_cpus, more_memory = cpus - (even_cpus or cpus), memory - (even_memory or memory)
    pairs = [
        Pair(label="Servers", value=joined([seat["server"] for seat in seats])),
        Pair(
            label=_capital(subject.device.many),
            value=f"{number(attempt['num_gpus'])} of {number(subject.job.num_gpus)} asked",
        ),
        Pair(
            label="CPU cores",
            value=_cores(cpus),
            against=f"of {_cores(even_cpus)} in an equal split" if even_cpus else "",
            difference=signed(more_cpus, _digits(more_cpus)) if abs(more_cpus) >= SAME_CORES else "",
            tone="more" if more_cpus > 0 else "less",
        ),
        Pair(
            label="Memory",
            value=data_size(memory),
            against=f"of {data_size(even_memory)}" if even_memory else "",
            difference=_signed_size(more_memory) if abs(more_memory) >= SAME_BYTES else "",
            tone="more" if more_memory > 0 else "less",
        ),
        Pair(label="Datasets in memory", value=_cached(subject)),
        *_common(subject),
    ]
    return Holdings(
        title=_finding(more_cpus, more_memory),
        sub=f"What it is given, beside an equal part of its server for each {subject.device.one}",
        pairs=pairs,
    )


def _cached(subject: Subject) -> str:
    """Return the share of its datasets that its server has in memory, as its runtime tells it."""
    frac = newest(subject.series, "cached_frac", subject.at)
    return "not measured" if frac is None else percent(frac)


def _even_share(subject: Subject, seats: Sequence[SeatRow]) -> tuple[float | None, float | None]:
    """Return the cores and bytes in proportion to the devices; None where a server is not known any more."""
    rows = {server["id"]: server for server in subject.servers}
    cpus = memory = 0.0
    for seat in seats:
        server = rows.get(seat["server_id"])
        if server is None or not server["num_gpus"]:
            return None, None
        frac = len(seat["gpus"]) / server["num_gpus"]
        cpus += server["num_cpus"] * frac
        memory += server["memory_bytes"] * frac
    return cpus, memory


def _finding(more_cpus: float, more_memory: float) -> str:
    if more_cpus >= SAME_CORES:
        return f"The job has {_plural_cores(more_cpus)} more than an equal split gives"
    if more_cpus <= -SAME_CORES:
        return f"The job has {_plural_cores(-more_cpus)} fewer than an equal split gives"
    if abs(more_memory) >= SAME_BYTES:
        more = "more" if more_memory > 0 else "less"
        return f"The job has {data_size(abs(more_memory))} {more} memory than an equal split gives"
    return "Resources, compared with an equal split"


def _asked(subject: Subject) -> Holdings:
    spec = subject.job.spec
    resources, schedule = spec["resources"], spec["schedule"]
    pairs = [
        Pair(label=_capital(subject.device.many), value=number(subject.job.num_gpus)),
        Pair(
            label="CPU cores", value="as many as it can use" if resources["cpus"] == "auto" else str(resources["cpus"])
        ),
        Pair(label="Memory", value="as much as it can use" if resources["memory"] == "auto" else resources["memory"]),
        Pair(label="Disk", value=resources["disk"]),
        Pair(label="Priority", value=number(schedule["priority"])),
        Pair(label="Preemptible", value="yes" if schedule["preemptible"] else "no"),
        *_common(subject),
    ]
    title = f"Asked for {subject.device.counted(subject.job.num_gpus)}"
    if not subject.is_over:
        title = f"Asks for {subject.device.counted(subject.job.num_gpus)}"
    return Holdings(title=title, sub="", pairs=pairs)


def _common(subject: Subject) -> list[Pair]:
    detail, checkpoint = subject.detail, subject.detail["checkpoint"]
    pairs = [
        Pair(label="Its command starts", value=_launch(subject)),
        Pair(label="Profile", value=detail["profile"] or "not measured"),
    ]
    if detail["queueing_s"] >= 1 and subject.is_holding:
        pairs.append(Pair(label="Waited", value=duration(detail["queueing_s"])))
    if checkpoint:
        at = subject.time(checkpoint["at"])
        when = f", {clock(at, subject.at, subject.zone)}" if at else ""
        value = f"step {number(checkpoint['step'])}{when}"
        pairs.append(Pair(label="Last checkpoint", value=value, against=f"attempt {checkpoint['attempt']}"))
    pairs += _directory(subject)
    for name, value in list(subject.job.spec["labels"].items())[:8]:
        pairs.append(Pair(label=name, value=value or "(empty)"))
    return pairs


def _launch(subject: Subject) -> str:
    spec = subject.job.spec
    return subject.words(launch_words(stored_per(spec), StoredResources(spec["resources"])))


def _directory(subject: Subject) -> list[Pair]:
    """Return what the job keeps in its directory, and until when."""
    directory = subject.detail["directory"]
    if directory is None:
        return []
    removed, until = subject.time(directory["removed_at"]), subject.time(directory["kept_until"])
    if removed:
        return [Pair(label="Files", value=f"removed {clock(removed, subject.at, subject.zone)}")]
    size = data_size(directory["size_bytes"])
    if directory["removal_at"]:
        return [Pair(label="Files", value=size, against="being removed")]
    kept = f"kept until {clock(until, subject.at, subject.zone)}" if until else "kept while it has not ended"
    return [Pair(label="Files", value=size, against=kept)]


def _cores(cpus: float | None) -> str:
    return number(cpus, _digits(cpus or 0.0))


def _digits(value: float) -> int:
    return 0 if abs(value - round(value)) < SAME_CORES else 1


def _plural_cores(cpus: float) -> str:
    return f"{_cores(cpus)} {'core' if _cores(cpus) == '1' else 'cores'}"


def _signed_size(size_bytes: float) -> str:
    return f"{'+' if size_bytes > 0 else MINUS}{data_size(abs(size_bytes))}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
