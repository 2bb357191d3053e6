"""The course of a job so far: its waits and runs as parts of one thin bar, with preemptions as marks."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from frontend.components.formats import clock, counted, duration, whole_s
from frontend.components.reason_names import reason_name
from frontend.pages.jobs.subject import Subject
from scheduler.selectors.jobs.rows import TimelineRow

PARTS_MOST = 6  # with more the five longest, by reason, and the rest
SHORT_FRAC = 0.01  # of the whole; shorter ones one after another are one part


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of the bar.

    Attributes:
        span: Weight of its width, seconds.
        tone: Of its colour; ``ran`` while it ran.
        words: What it was, for the label below.
        detail: Since when, or how long where the parts are not in the order of time.
        title: The whole in words.
        is_preempted: Whether a preemption ended the run before it.
    """

    span: float
    tone: str
    words: str
    detail: str
    title: str
    is_preempted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """The bar, and how long it waited in all; ``is_in_order``: whether the parts are in the order of time."""

    parts: list[Part]
    waited: str
    is_in_order: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stretch:
    """Neighbours on the timeline that are one part."""

    entries: Sequence[TimelineRow]
    is_preempted: bool

    @property
    def span_s(self) -> float:
        return sum(entry["duration_s"] for entry in self.entries)

    @property
    def name(self) -> tuple[str, str]:
        """Return what the longest of it was, and its tone."""
        longest = max(self.entries, key=lambda entry: entry["duration_s"])
        if longest["kind"] == "attempt":
            return "Ran", "ran"
        return reason_name(longest["reason"])


def course_of(subject: Subject) -> Course:
    """Return waits and runs in the order of time; where there are too many, what they sum up to by reason."""
    stretches = _stretches(subject.timeline)
    waited_s = sum(entry["duration_s"] for one in stretches for entry in one.entries if entry["kind"] == "wait")
    waited = duration(whole_s(waited_s)) if waited_s else ""
    if all(entry["kind"] == "attempt" for one in stretches for entry in one.entries):
        return Course(parts=[], waited="", is_in_order=True)
    if len(stretches) <= PARTS_MOST:
        return Course(parts=[_part(subject, one) for one in stretches], waited=waited, is_in_order=True)
    return Course(parts=_by_name(stretches), waited=waited, is_in_order=False)


def _stretches(timeline: Sequence[TimelineRow]) -> list[_Stretch]:
    """Return the course in stretches; short waits one after another are one."""
    lasting = [entry for entry in timeline if entry["duration_s"] >= 1]
    sum_s = sum(entry["duration_s"] for entry in lasting)
    made: list[_Stretch] = []
    was_preempted = False

    def kind(entry: TimelineRow) -> tuple[bool, str]:
        is_short = entry["kind"] == "wait" and entry["duration_s"] < sum_s * SHORT_FRAC
        return is_short, "" if is_short else entry["start"]

    for _, same in groupby(lasting, key=kind):
        entries = [*same]
        made.append(_Stretch(entries=entries, is_preempted=was_preempted))
        last = entries[-1]
        was_preempted = last["kind"] == "attempt" and last["receipt"] is not None and last["end"] is not None
    return made


def _part(subject: Subject, stretch: _Stretch) -> Part:
    words, tone = stretch.name
    start = subject.time(stretch.entries[0]["start"])
    assert start
    many = len(stretch.entries)
    what = words if many == 1 else f"{counted(many, 'short wait')}, the longest: {words}"
    since = clock(start, subject.at, subject.zone)
    before = "Preempted, then: " if stretch.is_preempted else ""
    return Part(
        span=stretch.span_s,
        tone=tone,
        words=words,
        detail=since,
        title=f"{before}{what}, {duration(stretch.span_s)} from {since}",
        is_preempted=stretch.is_preempted,
    )


def _by_name(stretches: Sequence[_Stretch]) -> list[Part]:
    """Return the sums by what it was, longest first, the five longest and the rest."""
    spans: dict[tuple[str, str], list[float]] = defaultdict(list)
    for stretch in stretches:
        for entry in stretch.entries:
            name = ("Ran", "ran") if entry["kind"] == "attempt" else reason_name(entry["reason"])
            spans[name].append(entry["duration_s"])
    ordered = sorted(spans.items(), key=lambda item: -sum(item[1]))
    if len(ordered) > PARTS_MOST:
        rest = [span for _, found in ordered[PARTS_MOST - 1 :] for span in found]
        ordered = [*ordered[: PARTS_MOST - 1], (("Other", "mute"), rest)]
    return [
        Part(
            span=sum(found),
            tone=tone,
            words=words,
            detail=duration(whole_s(sum(found))),
            title=f"{words}, {duration(whole_s(sum(found)))} in {counted(len(found), 'part')}",
        )
        for (words, tone), found in ordered
    ]
