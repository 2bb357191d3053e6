"""Live frames: sends changes to the open pages, at most four times a second for each websocket group.

Nothing is read or sent for a group that no page watches: a page that opens later reads the database. The first change
after a quiet time is sent at once, later ones together. The content comes from the selectors that pages and REST use,
so that a frame never shows more than a page would.
"""

import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

from scheduler.live.reports.telemetry import JobValues, queue_values
from scheduler.models import Attempt, Event, Job, Lease, Queue
from scheduler.ports import FrameSink
from scheduler.selectors.cluster.overview import cluster_now
from scheduler.selectors.events import event_row, events_joined
from scheduler.selectors.jobs.listing import job_row

EVERY_S = 0.25
# In one frame; what is more follows with the next.
ROWS_MOST = 200
EVENTS_MOST = 20
# Older values say nothing of a job now: it reports no longer, or has ended.
MEASURED_S = 10.0

FrameData = dict[str, Any]  # JSON of a frame


class Frames:
    """Collects touched names (``cluster``, ``queue.<pk>``, ``job.<ulid>``) and sends frames of them.

    ``touch`` may be called from any thread, ``flush`` from one.
    """

    def __init__(self, sink: FrameSink) -> None:
        self.changed = threading.Event()
        self._sink = sink
        self._lock = threading.Lock()
        self._touched: set[str] = set()
        self._measured: dict[str, tuple[float, JobValues]] = {}  # by ULID: monotonic time of the report, its values
        # Names still to be sent, by group: jobs of a queue, and the group's own name for itself.
        self._pending: dict[str, set[str]] = defaultdict(set)
        self._sent_s: dict[str, float] = {}
        self._watched: Set[str] | None = None  # groups; None: not known, so all
        self._newest_event = _newest_event()

    def touch(self, names: Iterable[str]) -> None:
        """Mark things as changed."""
        with self._lock:
            self._touched.update(names)
        self.changed.set()

    def measure(self, measured: Mapping[str, JobValues], *, now_s: float) -> None:
        """Keep the newest measured values of jobs, by ULID; frames of each carry them while they are new."""
        with self._lock:
            self._measured.update((pk, (now_s, values)) for pk, values in measured.items())

    def flush(self, *, now_s: float) -> float | None:
        """Send the frames that are due.

        Args:
            now_s: Monotonic time, seconds.

        Returns:
            Seconds until the rest is due; None when nothing waits.
        """
        self.changed.clear()
        with self._lock:
            touched, self._touched = self._touched, set()
        self._watched = self._sink.watched() if touched or self._pending else self._watched
        self._forget(now_s=now_s)
        self._sort_out(touched)
        due = {group for group in self._pending if now_s - self._sent_s.get(group, -EVERY_S) >= EVERY_S}
        self._sent_s = {group: at for group, at in self._sent_s.items() if now_s - at < EVERY_S}
        self._sent_s |= dict.fromkeys(due, now_s)
        if due:
            self._send({group: self._take(group) for group in sorted(due)})
        if not self._pending:
            return None
        return max(0.0, min(self._sent_s.get(group, now_s) for group in self._pending) + EVERY_S - now_s)

    def _forget(self, *, now_s: float) -> None:
        """Drop measured values that no frame will carry, or else those of every job that ever ran would stay."""
        with self._lock:
            self._measured = {
                pk: (at_s, values)
                for pk, (at_s, values) in self._measured.items()
                if now_s - at_s < MEASURED_S and self._is_watched(f"job.{pk}")
            }

    def _sort_out(self, touched: set[str]) -> None:
        """Turn touched names into pending names of each group."""
        job_pks = [name.removeprefix("job.") for name in touched if name.startswith("job.")]
        shows_queues = self._watched is None or any(group.startswith("queue.") for group in self._watched)
        if not shows_queues:
            job_pks = [pk for pk in job_pks if self._is_watched(f"job.{pk}")]
        jobs = Job.objects.filter(pk__in=job_pks).values_list("pk", "queue_id") if job_pks else ()
        for job_pk, queue_id in jobs:
            for group in (f"job.{job_pk}", f"queue.{queue_id}"):
                if self._is_watched(group):
                    self._pending[group].add(f"job.{job_pk}")
        for name in touched:
            # The counts of a queue are also those of the queues above it.
            if not name.startswith("job.") and (shows_queues if name != "cluster" else self._is_watched(name)):
                self._pending[name].add(name)
        if not self._pending:
            self._newest_event = _newest_event()

    def _is_watched(self, group: str) -> bool:
        return self._watched is None or group in self._watched

    def _take(self, group: str) -> list[str]:
        """Return the names that go with this frame; the rest stays for the next."""
        names = sorted(self._pending.pop(group))
        if len(names) > ROWS_MOST:
            self._pending[group] = set(names[ROWS_MOST:])
        return names[:ROWS_MOST]

    def _send(self, due: Mapping[str, list[str]]) -> None:
        job_pks = {name.removeprefix("job.") for names in due.values() for name in names if name.startswith("job.")}
        jobs = Job.objects.select_related("queue", "owner").defer("spec").in_bulk(job_pks)
        rows = {f"job.{pk}": job_row(job) for pk, job in jobs.items()}
        details = self._details([jobs[pk] for pk in jobs if f"job.{pk}" in due])
        for group, names in due.items():
            if group == "cluster":
                self._sink.send(group, "cluster", cluster_now())
            elif group.startswith("job."):
                if group in rows:
                    self._sink.send(group, "job", {**rows[group], **details[group]})
            else:
                changed = [rows[name] for name in names if name in rows]
                if changed:
                    self._sink.send(group, "jobs", {"jobs": changed})
        counts = [
            int(group.removeprefix("queue.")) for group, names in due.items() if group in names and "queue" in group
        ]
        for data in queue_counts(counts):
            if self._is_watched(f"queue.{data['id']}"):
                self._sink.send(f"queue.{data['id']}", "queue", data)
        self._send_events()

    def _details(self, jobs: Sequence[Job]) -> dict[str, FrameData]:
        """Return the values that each job's own page shows beside its row, by group."""
        began = [job.pk for job in jobs if job.event_count > 1]  # the first event is the submit
        attempts = Attempt.objects.filter(job__in=began).order_by("number").only("number", "job_id") if began else ()
        newest = {attempt.job_id: attempt for attempt in attempts}
        servers: dict[str, list[str]] = defaultdict(list)
        if newest:
            leases = Lease.objects.filter(attempt__in=newest.values()).order_by("server__number")
            for job_id, name in leases.values_list("attempt__job_id", "server__name"):
                servers[job_id].append(name)
        details = {}
        for job in jobs:
            with self._lock:
                # Kept: a page that is behind gets the newest frame alone, so that each must say all.
                _, measured = self._measured.get(job.pk, (0.0, None))
            details[f"job.{job.pk}"] = {
                "cpu_frac": measured["cpu_frac"] if measured else None,
                "memory_bytes": measured["memory_bytes"] if measured else None,
                "gpu_frac": measured["gpu_frac"] if measured else None,
                "checkpoint_step": job.checkpoint_step,
                "checkpoint_at": job.checkpoint_at.isoformat() if job.checkpoint_at else None,
                "attempt_number": newest[job.pk].number if job.pk in newest else None,
                "servers": servers[job.pk],
            }
        return details

    def _send_events(self) -> None:
        """Send queues and jobs the newest events since the last frame."""
        later = Event.objects.filter(pk__gt=self._newest_event)
        new = list(events_joined(later).order_by("-pk")[: EVENTS_MOST * 10])
        by_group: dict[str, list[Event]] = defaultdict(list)
        for event in new:
            if event.queue_id is not None:
                by_group[f"queue.{event.queue_id}"].append(event)
            if event.job_id is not None:
                by_group[f"job.{event.job_id}"].append(event)
        for group, events in sorted(by_group.items()):
            for event in reversed(events[:EVENTS_MOST]) if self._is_watched(group) else ():
                self._sink.send(group, "event", event_row(event))
        if new:
            self._newest_event = new[0].pk


def _newest_event() -> int:
    return Event.objects.order_by("-pk").values_list("pk", flat=True).first() or 0


def queue_counts(queue_ids: Iterable[int]) -> list[FrameData]:
    """Return the counts of these queues and their ancestors, each with its whole subtree."""
    wanted = set(queue_ids)
    if not wanted:
        return []
    queues = {queue.pk: queue for queue in Queue.objects.all()}
    totals = queue_values()
    for pk in _deepest_first({pk: queue.parent_id for pk, queue in queues.items()}):
        parent = queues[pk].parent_id
        if parent is None:
            continue
        if pk in wanted:
            wanted.add(parent)
        totals[parent]["held_gpus"] += totals[pk]["held_gpus"]
        totals[parent]["waiting_jobs"] += totals[pk]["waiting_jobs"]
        totals[parent]["running_jobs"] += totals[pk]["running_jobs"]
    return [{"id": pk, "name": queues[pk].name, **totals[pk]} for pk in sorted(wanted) if pk in queues]


def _deepest_first(parents: Mapping[int, int | None]) -> list[int]:
    """Return the queues so that each stands before its parent; names need not say how deep a queue is."""
    depths: dict[int, int] = {}
    for pk in parents:
        above, depth = parents[pk], 0
        while above is not None:
            above, depth = parents[above], depth + 1
        depths[pk] = depth
    return sorted(parents, key=lambda pk: (-depths[pk], pk))
