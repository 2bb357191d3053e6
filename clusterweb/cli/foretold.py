"""The answer to ``submit --dry-run`` as text: what the next rounds would do with the job."""

from clusterweb.cli.text import clock
from clusterweb.client.rows import DryRun, Estimate


def preview_text(answer: DryRun) -> str:
    """Return what a dry run found, a line each."""
    preview = answer["preview"]
    lines = [f"{'ok' if check['ok'] else 'NO'}  {check['text']}" for check in answer["checks"]]
    lines += when_lines(preview["estimate"]) if preview["starts"] == "later" else []
    if preview["position"]:
        lines.append(f"Place {preview['position']} of {preview['waiting_jobs']} in line.")
    for job in preview["preempts"]:
        name = f"J-{job['number']} {job['name']}" if job["number"] else job["name"]
        lines.append(f"Makes room: {name} of {job['queue']}, {job['num_gpus']} GPUs ({job['rule'].replace('_', ' ')}).")
    return "\n".join([*lines, "Nothing is stored."])


def when_lines(estimate: Estimate | None) -> list[str]:
    """Return when a job starts in a line; nothing for one that does not wait."""
    if not estimate:
        return []
    if not estimate["known"]:
        return [estimate["sentence"]]
    by = f"by {clock(estimate['p90_at'])}" if estimate["p90_at"] else "later than 7 days from now"
    return [f"Starts at about {clock(estimate['p50_at'])}, 9 in 10 {by} ({estimate['futures']} simulated futures)."]
