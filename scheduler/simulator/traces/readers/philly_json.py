"""Philly as Microsoft published it: ``cluster_job_log``, a JSON list of jobs with their attempts."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from scheduler.core.operations.failures import FailureClass
from scheduler.simulator.jobs import Failure
from scheduler.simulator.traces.collect import Collector
from scheduler.simulator.traces.errors import TraceError, shown
from scheduler.simulator.traces.reader import Reader
from scheduler.simulator.traces.row import unix_s
from scheduler.simulator.traces.source import Source
from scheduler.simulator.traces.trace import Trace

FIELDS = ("status", "vc", "jobid", "attempts", "submitted_time", "user")
_MISSING = (None, "", "None")
_BLANK = " \t\r\n"


def fits(head: bytes) -> bool:
    """Return whether it begins like a list of objects with the fields of the first job."""
    text = head.lstrip()
    return text[:1] == b"[" and text[1:].lstrip()[:1] in (b"{", b"]") and b'"attempts"' in text


def read(source: Source, profiles: Path) -> Trace:
    """Return the trace: jobs that ran to an end, whatever it was.

    The last attempt is the run, also of jobs that were killed or failed in the end, so that a replay holds GPUs as
    long as Philly did; the attempts before it are failures of an unknown cause. GPUs are the most of any attempt.

    Source: msr-fiddle/philly-traces, CC-BY-4.0.
    """
    collected = Collector(format="philly-json", file=source.name, dated=True)
    for line, job in _objects(source):
        _take(_Job(source.name, line, job), collected)
    return collected.trace()


def _take(job: "_Job", collected: Collector) -> None:
    submitted_s = job.moment_s(job.fields, "submitted_time")
    if submitted_s is None:
        job.refuse("submitted_time", "a date and time such as 2017-10-09 07:02:42")
    attempts, open_ended, num_gpus = job.attempts()
    if not num_gpus:
        collected.leave_out("that never got a GPU and left out")
        return
    if not attempts:
        collected.leave_out("without an attempt that both began and ended, left out")
        return
    if open_ended:
        collected.count("with attempts without a begin or an end, which are not replayed")
    *before, run_s = attempts
    collected.add(
        line=job.line,
        id=job.text("jobid"),
        id_column="jobid",
        arrival_s=submitted_s,
        num_gpus=num_gpus,
        run_s=run_s,
        owner=job.text("user"),
        queue=job.text("vc"),
        failures=tuple(Failure(after_s=length_s, cause=FailureClass.UNCLASSIFIED) for length_s in before),
    )


class _Job:
    """One job of the list, its fields checked as they are read."""

    def __init__(self, file: str, line: int, fields: Mapping[str, Any]) -> None:
        self.file, self.line, self.fields = file, line, fields

    def refuse(self, field: str, wanted: str, found: object = None) -> NoReturn:
        found = self.fields.get(field) if found is None else found
        # All jobs may stand in one line.
        problem = f"found {shown(found)} in job {shown(self.fields.get('jobid'))}, expected {wanted}"
        raise TraceError(file=self.file, line=self.line, column=field, problem=problem)

    def text(self, field: str) -> str:
        value = self.fields.get(field)
        if value is None:
            return ""
        if not isinstance(value, str):
            self.refuse(field, "a text")
        return value.strip()

    def moment_s(self, fields: Mapping[str, Any], field: str) -> float | None:
        value = fields.get(field)
        if value in _MISSING:
            return None
        try:
            return unix_s(value)
        except (TypeError, ValueError):
            self.refuse(field, "a date and time such as 2017-10-09 07:02:42, or null", value)

    def attempts(self) -> tuple[list[float], int, int]:
        """Return the lengths of the attempts in seconds, how many have no begin or end, and the most GPUs of one."""
        attempts = self.fields.get("attempts")
        if not isinstance(attempts, list):
            self.refuse("attempts", "a list")
        lengths, open_ended, most = [], 0, 0
        for attempt in attempts:
            if not isinstance(attempt, dict):
                self.refuse("attempts", "a list of objects", attempt)
            most = max(most, self._gpus(attempt.get("detail")))
            begin_s, end_s = self.moment_s(attempt, "start_time"), self.moment_s(attempt, "end_time")
            if begin_s is None or end_s is None:
                open_ended += 1
            elif end_s < begin_s:
                self.refuse("end_time", f"a moment not before {attempt['start_time']}", attempt["end_time"])
            else:
                lengths.append(end_s - begin_s)
        return lengths, open_ended, most

    def _gpus(self, detail: Any) -> int:
        if not isinstance(detail, list):
            self.refuse("detail", "a list of servers", detail)
        count = 0
        for server in detail:
            if not isinstance(server, dict) or not isinstance(server.get("gpus"), list):
                self.refuse("detail", "a list of objects with ip and a list of gpus", server)
            count += len(server["gpus"])
        return count


def _objects(source: Source) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line, object) of a JSON list, one object at a time, so that only the text of the file is in memory."""
    text = _text(source)
    decoder = json.JSONDecoder(parse_constant=_no_constant)
    at, line, counted = _skip(text, 0), 1, 0
    if text[at : at + 1] != "[":
        raise TraceError(file=source.name, line=1, problem="expected a list of jobs, which begins with [")
    at = _skip(text, at + 1)
    while text[at : at + 1] != "]":
        line, counted = line + text.count("\n", counted, at), at
        try:
            value, at = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            raise TraceError(file=source.name, line=error.lineno, problem=f"is not JSON: {error.msg}") from error
        except (ValueError, RecursionError) as error:
            raise TraceError(file=source.name, line=line, problem=f"cannot be read: {error}") from error
        if not isinstance(value, dict) or (missing := [field for field in FIELDS if field not in value]):
            lack = f"without {', '.join(missing)}" if isinstance(value, dict) else shown(value)
            raise TraceError(
                file=source.name, line=line, problem=f"expected a job with {', '.join(FIELDS)}; it is {lack}"
            )
        yield line, value
        at = _skip(text, at)
        if text[at : at + 1] == ",":
            at = _skip(text, at + 1)
        elif text[at : at + 1] != "]":
            line += text.count("\n", counted, at)
            raise TraceError(file=source.name, line=line, problem="expected a comma or ] after a job")
    if text[at + 1 :].strip(_BLANK):
        raise TraceError(file=source.name, problem="there is something behind the list of jobs")


def _text(source: Source) -> str:
    content = source.content()
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise TraceError(file=source.name, line=line, problem="is not UTF-8 text") from error


def _skip(text: str, at: int) -> int:
    while text[at : at + 1] in tuple(_BLANK):
        at += 1
    return at


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


READER = Reader(
    looks_like='[{"status": "Pass", "vc": "...", "jobid": "...", "attempts": [...], ...',
    fits=fits,
    read=read,
    whole_only=True,
)
