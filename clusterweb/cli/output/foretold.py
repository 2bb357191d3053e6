"""What comes next for a job as text: by the next rounds, and of the Python environment that it waits for."""

from datetime import UTC, datetime

from clusterweb.cli.output.text import clock, since
from clusterweb.client.rows import Build, DryRun, EnvironmentAnswer, Estimate, Explanation

LOG_LINES = 10


def preview_text(answer: DryRun, *, sent_folder: bool) -> str:
    """Return what a dry run found, a line each, and what it left on the server."""
    preview = answer["preview"]
    lines = [f"{'ok' if check['ok'] else 'NO'}  {check['text']}" for check in answer["checks"]]
    lines += when_lines(preview["estimate"]) if preview["starts"] == "later" else []
    if preview["position"]:
        lines.append(f"Place {preview['position']} of {preview['waiting_jobs']} in line.")
    for job in preview["preempts"]:
        name = f"J-{job['number']} {job['name']}" if job["number"] else job["name"]
        gpus = "1 GPU" if job["num_gpus"] == 1 else f"{job['num_gpus']} GPUs"
        lines.append(f"Makes room: {name} of {job['queue']}, {gpus} ({job['rule'].replace('_', ' ')}).")
    return "\n".join([*lines, stored_text(sent_folder=sent_folder)])


def stored_text(*, sent_folder: bool) -> str:
    """Return what a dry run left on the server: no job, but the folder that was sent for it."""
    return "No job is stored; the folder stays on the server." if sent_folder else "Nothing is stored."


def wait_lines(found: Explanation) -> list[str]:
    """Return for how long a job waits, for its reason and in all, and its place in line; nothing for another job."""
    if not (begun := found.get("waits_since")):  # an older server does not say it
        return []
    lasts, for_this = since(begun), since(found["since"])
    waits = f"Waits {lasts}" + (f", for this reason {for_this}" if for_this and for_this != lasts else "")
    if not found["position"]:
        return [f"{waits}."]
    place = f"place {found['position']} of {found['waiting_jobs']} in line"
    if found["queue_position"]:
        place += f", {found['queue_position']} of {found['queue_waiting_jobs']} in its queue"
    return [f"{waits}; {place}."]


def when_lines(estimate: Estimate | None) -> list[str]:
    """Return when a job starts in a line; nothing for one that does not wait."""
    if not estimate:
        return []
    if not estimate["known"]:
        return [estimate["sentence"]]
    by = f"by {clock(estimate['p90_at'])}" if estimate["p90_at"] else "later than 7 days from now"
    verb = "Was to start" if _is_past(estimate["p50_at"]) else "Starts"
    return [f"{verb} at about {clock(estimate['p50_at'])}, 9 in 10 {by} ({estimate['futures']} simulated futures)."]


def environment_lines(environment: EnvironmentAnswer | None) -> list[str]:
    """Return how the Python environment of a job stands: its build, each server where one failed, the log's end."""
    if not environment:
        return []
    lines, builds = [], environment["builds"]
    if environment["sentence"]:
        lines.append(f"Environment from {environment['source']}: {environment['sentence'].rstrip('.')}.")
        building = [one for one in builds if one["state"] == "building"]
        lines += [f"Built on {one['server']} for {since(one['changed_at'])}." for one in building]
        ready = [one["server"] for one in builds if one["state"] == "ready"]
        lines += [f"Ready on {', '.join(ready)}."] if ready else []
    failed = [one for one in builds if one["state"] == "failed"]
    lines += [f"Failed on {one['server']}: {one['detail'].rstrip('.')}.{_next_try(one)}" for one in failed]
    if environment["log"] and (failed or not environment["sentence"]):
        lines += ["End of the build's log:"]
        lines += [f"  {line}" for line in environment["log"].splitlines()[-LOG_LINES:]]
    return lines


def _next_try(build: Build) -> str:
    """Return when a build is tried again that failed by no fault of its files."""
    if not build["again_at"]:
        return ""
    is_due = _is_past(build["again_at"])
    return " The next try is due." if is_due else f" Tried again at {clock(build['again_at'])}."


def _is_past(moment: str) -> bool:
    return datetime.fromisoformat(moment.replace("Z", "+00:00")) <= datetime.now(UTC)
