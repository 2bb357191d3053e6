"""What a job shows that waits for its Python environment: how far the build is, what comes next, which others wait."""

import shlex
from dataclasses import dataclass

from frontend.components.formats import counted, data_size, duration, joined, number, whole_s
from frontend.pages.jobs.subject import Subject
from scheduler.core.model.lifecycle import PREPARING, EndCause
from scheduler.models import CodeFolder
from scheduler.selectors.cluster.environments import BuildRow, EnvironmentRow, build_under_way
from scheduler.selectors.rows import NamedJob

LOG_LINES = 30
DIGEST_CHARS = 7
COMMAND_CHARS = 90


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step on the way to the first process; ``state`` is done, now or later."""

    state: str
    title: str
    sub: str = ""
    side: str = ""
    since: str = ""
    first: NamedJob | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparing:
    """The card in place of progress, its steps, and the end of the build's log.

    Attributes:
        percent: Of packages that are installed; empty while their number is not known.
        since, took: Since when the server builds, and how long that is.
        pairs: What is said of the environment, label and value.
    """

    title: str
    percent: str
    since: str
    took: str
    server: str
    steps: list[Step]
    steps_title: str
    log: list[str]
    pairs: list[tuple[str, str]]


def preparing_of(subject: Subject) -> Preparing | None:
    """Return what is shown; None for a job that does not wait for its environment."""
    environment = subject.detail["environment"]
    if subject.detail["phase"] != PREPARING or environment is None:
        return None
    build = build_under_way(environment["builds"])
    steps = _steps(subject, environment, build)
    done = sum(step.state == "done" for step in steps)
    since = (build["changed_at"] if build["state"] == "building" else build["asked_at"]) if build else ""
    begun = subject.time(since) if since else None
    return Preparing(
        title=environment["sentence"],
        percent=f"{build['done'] / build['total'] * 100:.2f}" if build and build["done"] and build["total"] else "",
        since=since,
        took=duration(whole_s(max(0.0, (subject.at - begun).total_seconds()))) if begun else "",
        server=build["server"] if build else "",
        steps=steps,
        steps_title=f"{number(done)} of {counted(len(steps), 'step')} done",
        log=log_lines(environment),
        pairs=[*_broken(subject, environment), *_pairs(environment, build)],
    )


def failed_log(subject: Subject) -> list[str]:
    """Return the end of the log of the build that a job failed by; empty for any other job."""
    environment = subject.detail["environment"]
    if environment is None or subject.detail["end_cause"] != EndCause.ENVIRONMENT:
        return []
    return log_lines(environment)


def log_lines(environment: EnvironmentRow) -> list[str]:
    """Return the last lines of a build's log."""
    return environment["log"].splitlines()[-LOG_LINES:]


def _steps(subject: Subject, environment: EnvironmentRow, build: BuildRow | None) -> list[Step]:
    spec, job = subject.job.spec, subject.job
    steps = []
    folder = CodeFolder.objects.filter(pk=job.code).first() if job.code else None
    if folder is not None:
        size = f"{counted(folder.num_files, 'file')}, {data_size(folder.num_bytes)}"
        steps.append(Step(state="done", title=f"Folder received: {size}"))
    names = sorted(
        name for name, value in (spec.get("env") or {}).items() if isinstance(value, dict) and "secret" in value
    )
    if names:
        steps.append(
            Step(state="done", title=f"Secrets found: {joined(names)}", sub="Their values reach the process only")
        )
    first = environment["waiting_jobs"][0] if environment["waiting_jobs"] else None
    where = f" on {build['server']}" if build else ""
    python = f" · Python {build['python']}" if build and build["python"] else ""
    steps.append(
        Step(
            state="now",
            title=f"Environment: {environment['sentence'][:1].lower()}{environment['sentence'][1:]}",
            sub=f"{environment['source']} {environment['digest'][:DIGEST_CHARS]}{python}{where}",
            since=build["changed_at"] if build else "",
            first=first if first is not None and first["id"] != job.pk else None,
        )
    )
    size = subject.device.counted(job.num_gpus)
    steps.append(
        Step(state="later", title=f"A round gives it {size}", sub=f"{job.queue.name} is not charged before that")
    )
    command = shlex.join(str(word) for word in spec["command"])
    shown = command if len(command) <= COMMAND_CHARS else f"{command[:COMMAND_CHARS]}…"
    steps.append(Step(state="later", title="Its command starts", sub=shown))
    return steps


def _broken(subject: Subject, environment: EnvironmentRow) -> list[tuple[str, str]]:
    """Return what broke on the way on each server, and when that is tried again."""
    found = []
    for one in environment["builds"]:
        again = subject.time(one["again_at"])
        if again is not None:
            left_s = max(0.0, (again - subject.at).total_seconds())
            found += [(f"On {one['server']}", one["detail"]), ("Tried again", f"in {duration(whole_s(left_s))}")]
    return found


def _pairs(environment: EnvironmentRow, build: BuildRow | None) -> list[tuple[str, str]]:
    pairs = [("From", environment["source"]), ("Digest", environment["digest"][:DIGEST_CHARS])]
    if build is not None:
        if build["total"] is not None:
            pairs.append(("Packages", f"{number(build['done'] or 0)} of {number(build['total'])}"))
        pairs.append(("Built on", build["server"]))
    ready = [one["server"] for one in environment["builds"] if one["state"] == "ready"]
    if ready:
        pairs.append(("Ready on", joined(ready)))
    pairs.append(("Waiting for it", joined([f"J-{one['number']}" for one in environment["waiting_jobs"]]) or "none"))
    return pairs
