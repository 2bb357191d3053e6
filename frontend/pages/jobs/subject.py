"""The job that a page is about, its reader and the time of reading: what all its tabs share, each read once."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from functools import cached_property

from django.http import Http404, HttpRequest

from frontend.components.devices import DeviceWord, device_word
from frontend.components.times import Series, as_time_or_none
from frontend.components.viewer import now_utc, viewer_zone
from scheduler.core.model.errors import NotFound
from scheduler.core.model.lifecycle import HOLDING, TERMINAL, JobState
from scheduler.models import Job
from scheduler.selectors.cluster.rows import ServerRow
from scheduler.selectors.cluster.servers import device_kinds, server_list
from scheduler.selectors.files.scalars import Scalars, scalars_of
from scheduler.selectors.files.survey import Survey, job_survey
from scheduler.selectors.jobs.listing import job_detail, job_explain, job_series, job_timeline
from scheduler.selectors.jobs.log_links import RunLink, run_links
from scheduler.selectors.jobs.profile_rows import ProfileDetail
from scheduler.selectors.jobs.profiles import profile_detail
from scheduler.selectors.jobs.reason_rows import Explanation
from scheduler.selectors.jobs.rows import JobDetail, RunRow, TimelineRow
from scheduler.selectors.times import iso
from scheduler.selectors.visibility import require_job

FEW_FILES, MOST_FILES = 1_000, 20_000


def found_job(request: HttpRequest, key: str) -> Job:
    """Return the job that a URL names, if the reader may see it; 404 otherwise, as for one that does not exist."""
    try:
        return require_job(request.user, key)
    except NotFound as error:
        raise Http404(str(error)) from None


def them(count: int) -> str:
    """Return the pronoun of so many devices."""
    return "it" if count == 1 else "them"


@dataclass(frozen=True, kw_only=True)
class Subject:
    """One job and its reader. What costs queries is read when a tab first asks for it."""

    request: HttpRequest
    job: Job
    at: datetime
    zone: tzinfo

    @cached_property
    def detail(self) -> JobDetail:
        """Return everything about the job as the REST API tells it."""
        return job_detail(self.request.user, self.job)

    @cached_property
    def servers(self) -> Sequence[ServerRow]:
        """Return all servers with their devices."""
        return server_list(self.request.user)

    @cached_property
    def device(self) -> DeviceWord:
        """Return what a device is called on this cluster."""
        return device_word(device_kinds(self.request.user))

    @cached_property
    def explain(self) -> Explanation:
        """Return why it waits."""
        return job_explain(self.request.user, self.job, self.at)

    @cached_property
    def timeline(self) -> list[TimelineRow]:
        """Return attempts and the times between them."""
        return job_timeline(self.job, self.at, self.request.user)

    @cached_property
    def attempts(self) -> list[RunRow]:
        """Return the attempts alone, oldest first."""
        return [entry for entry in self.timeline if entry["kind"] == "attempt"]

    def ran_from(self, run: RunRow) -> str:
        """Return from when a script counts how long a run has run; empty for one that has ended or not begun."""
        is_counted = run["end"] is None and run["started_at"] is not None
        return iso(self.at - timedelta(seconds=run["ran_s"])) if is_counted else ""

    @cached_property
    def series(self) -> Series:
        """Return the measured values, with times as times."""
        series = job_series(self.job)
        # One second may be written in two parts: within it, what was trained later came later.
        order = sorted(range(len(series["at"])), key=lambda i: (series["at"][i], series["step"][i] or 0))
        sorted_series = {name: [values[i] for i in order] for name, values in series.items()}
        return {**sorted_series, "at": [datetime.fromisoformat(at) for at in sorted_series["at"]]}

    @cached_property
    def profile(self) -> ProfileDetail | None:
        """Return what is known of its kind, as far as the reader may see it; None for nothing."""
        if self.job.profile is None:
            return None
        try:
            return profile_detail(self.request.user, self.job.profile.fingerprint)
        except NotFound:
            return None

    @cached_property
    def few_files(self) -> tuple[Survey, str]:
        """Return its files where they are few, looked at on every tab, and why there are none."""
        return self._survey(FEW_FILES)

    @cached_property
    def files(self) -> tuple[Survey, str]:
        """Return its files, up to a limit, and why there are none."""
        return self.few_files if self.few_files[0].is_whole else self._survey(MOST_FILES)

    @cached_property
    def scalars(self) -> Scalars:
        """Return the curves that it wrote into its files, as far as they are read."""
        return scalars_of(self.job, self.files[0])

    @cached_property
    def run_links(self) -> list[RunLink]:
        """Return where else the job tells of itself, as its log says."""
        newest = self.job.attempts.order_by("-number").first()
        return run_links(newest) if newest else []

    def _survey(self, most: int) -> tuple[Survey, str]:
        try:
            return job_survey(self.job, most=most), ""
        except NotFound as missing:
            return Survey(), str(missing)

    @property
    def state(self) -> JobState:
        """Return the state."""
        return JobState(self.job.state)

    @property
    def is_holding(self) -> bool:
        """Return whether it holds devices now."""
        return self.state in HOLDING

    @property
    def is_over(self) -> bool:
        """Return whether it has ended for good."""
        return self.state in TERMINAL

    @property
    def key(self) -> str:
        """Return what names it in a URL."""
        return f"J-{self.job.number}"

    @property
    def path(self) -> str:
        """Return the address of its page."""
        return f"/jobs/{self.key}"

    def time(self, value: str | None) -> datetime | None:
        """Return a time of a selector's row."""
        return as_time_or_none(value)

    def words(self, text: str) -> str:
        """Return a sentence of the scheduler with the devices called what they are here."""
        return self.device.said(text)


def subject_of(request: HttpRequest, key: str) -> Subject:
    """Return the job of a URL and its reader. Raises Http404."""
    return Subject(request=request, job=found_job(request, key), at=now_utc(), zone=viewer_zone(request))
