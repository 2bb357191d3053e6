"""The sentence that says why a job waits. Numbers come from the evidence of the round; names are added by the shells.

Every member of WaitReason has a sentence, and every sentence still stands when the evidence is empty.
"""

from collections.abc import Callable

from scheduler.core.model.plan import Evidence, WaitReason


def sentence(reason: WaitReason | str, evidence: Evidence) -> str:
    """Return one or two sentences for a reason.

    Args:
        reason: Why the job waits.
        evidence: Its numbers. Where a shell knows names it adds ``queue`` (of ``queue_id``), ``other_queue`` (of
            ``other_queue_id``) and ``job`` (the one that leaves, or that has to end), ``ahead_jobs`` where it knows the
            place in line; ``retry_at``, ``since`` and the like are ready texts.
    """
    return _SENTENCES[WaitReason(reason)](evidence)


def _number(evidence: Evidence, key: str, unit: str = "GPU") -> str:
    """Return ``8 GPUs``, ``1 GPU``, or ``enough GPUs`` when the number is not known."""
    value = evidence.get(key)
    if not isinstance(value, int | float):
        return f"enough {unit}s"
    text = f"{value:,.10g}".replace(",", "\N{NARROW NO-BREAK SPACE}")
    return f"{text} {unit}" if value == 1 else f"{text} {unit}s"


def _name(evidence: Evidence, key: str, otherwise: str) -> str:
    return str(evidence.get(key) or otherwise)


def _holds(evidence: Evidence, limit: str) -> str:
    queue = _name(evidence, "queue", "The queue")
    held, most = evidence.get("queue_held_gpus"), evidence.get(limit)
    if held is None or most is None:
        return f"{queue} holds all it may"
    return f"{queue} holds {held} of {most} GPUs"


def _new(evidence: Evidence) -> str:
    return "No round has looked at it yet."


def _queue_quota(evidence: Evidence) -> str:
    if not evidence.get("may_borrow"):
        return f"{_holds(evidence, 'queue_quota_gpus')}, and it borrows none."
    queue, other = _name(evidence, "queue", "the queue"), _name(evidence, "other_queue", "another queue")
    held, quota = evidence.get("queue_held_gpus"), evidence.get("queue_quota_gpus")
    others = f"{other} needs its own quota"
    if evidence.get("other_borrows"):
        others = f"{other} comes first for what is lent"
    elif "other_queue_id" not in evidence and "other_queue" not in evidence:
        others = "other queues use the rest"
    if not isinstance(held, int | float) or not isinstance(quota, int | float) or "needed_gpus" not in evidence:
        return f"The quota of {queue} is used up, and {other} needs its own."
    needs = f"Needs {_number(evidence, 'needed_gpus')}"
    if held < quota:
        left = quota - held
        return f"{needs}; {'one' if left == 1 else left} of {queue}'s quota {'is' if left == 1 else 'are'} left."
    return f"{needs}; {queue} holds {held} of its {quota}, and {others}."


def _queue_max(evidence: Evidence) -> str:
    return f"{_holds(evidence, 'queue_max_gpus')}, the most it may ever hold."


def _user_limit(evidence: Evidence) -> str:
    queue = _name(evidence, "queue", "the queue")
    most, held = evidence.get("user_max_gpus"), evidence.get("user_held_gpus")
    if most is None or held is None:
        return f"Its owner has all that one user may hold in {queue}."
    return (
        f"One user may hold {_number(evidence, 'user_max_gpus')} in {queue}. Its owner's jobs hold, or come first for, "
        f"{held}; it needs {_number(evidence, 'needed_gpus')}."
    )


def _array_limit(evidence: Evidence) -> str:
    most, at_work = evidence.get("array_most"), evidence.get("array_at_work")
    if most is None or at_work is None:
        return "Its array has as many jobs at work as it may."
    return (
        f"Its array may have {_number(evidence, 'array_most', 'job')} at work at once, and {at_work} are or come first."
    )


_UNTIL = {"completed": "has completed", "failed": "has failed or was cancelled", "ended": "has ended"}


def _dependency(evidence: Evidence) -> str:
    number = evidence.get("first_number")
    job = _name(evidence, "job", f"J-{number}" if number else "another job")
    starts = f"It starts when {job} {_UNTIL.get(str(evidence.get('until')), 'has ended')}"
    if "ended_jobs" in evidence:
        return f"{starts}; {evidence['ended_jobs']} of its {evidence.get('array_jobs')} jobs have ended."
    now = f"; that is {evidence['job_state']} now" if "job_state" in evidence else ""
    more = evidence.get("jobs", 1)
    return f"{starts}{now}." + (f" It waits for {more} jobs in all." if isinstance(more, int) and more > 1 else "")


def _no_capacity(evidence: Evidence) -> str:
    needs = f"It needs {_number(evidence, 'needed_gpus')}"
    free = evidence.get("free_gpus", 0)
    rest = "none is free" if free == 0 else f"{free} {'is' if free == 1 else 'are'} free"
    return f"{needs}; {rest}. It starts when a running job ends."


def _behind(evidence: Evidence) -> str:
    if "first_needs_gpus" in evidence:
        needs = _number(evidence, "first_needs_gpus")
        return f"Its queue starts jobs strictly in order. The first job ahead waits for {needs}."
    free, ahead = evidence.get("free_gpus"), evidence.get("ahead_jobs")
    if free is None:
        room = "no GPU is free for it"
    elif free == 0:
        room = "no GPU is free"
    else:
        room = f"it needs {_number(evidence, 'needed_gpus')}, {free} {'is' if free == 1 else 'are'} free"
    if ahead is None:
        return f"Other jobs are ahead; {room}."
    if not ahead:
        return f"Next in line; {room}."
    return f"{ahead} {'job is' if ahead == 1 else 'jobs are'} ahead; {room}."


def _fragmentation(evidence: Evidence) -> str:
    needed, largest = _number(evidence, "needed_gpus"), evidence.get("largest_free_gpus", 0)
    if evidence.get("too_spread"):
        return f"It needs {needed}. So many are free, but not where this round may seat it."
    most = evidence.get("max_servers", 1)
    where = "No server has" if most == 1 else f"No {most} servers together have" if most else "The servers do not have"
    block = "No GPU is free." if largest == 0 else f"The largest free block is {largest}."
    return f"{where} {needed} free. {block}"


def _cpu_or_memory(evidence: Evidence) -> str:
    wants = [_number(evidence, "needed_cpus", "core")] if "needed_cpus" in evidence else []
    memory = evidence.get("needed_memory_bytes")
    if isinstance(memory, int | float):
        wants.append(f"{memory / 2**30:,.1f} GiB of memory")
    insists = f" It insists on {' and '.join(wants)}." if wants else ""
    return f"Servers with {_number(evidence, 'needed_gpus')} free have too few cores or too little memory.{insists}"


def _never(evidence: Evidence) -> str:
    if drained := evidence.get("drained"):
        others = int(evidence.get("drained_servers", 1)) - 1
        more = f" and {others} more" if others else ""
        since = f" since {evidence['drained_since']}" if evidence.get("drained_since") else ""
        return f"It waits for {drained}{more}, drained{since}: no other server could hold it even when empty."
    largest = evidence.get("largest_possible_gpus")
    if largest is None:
        return "No server could hold it even when empty."
    needed = _number(evidence, "needed_gpus")
    if evidence.get("needed_cpus") or evidence.get("needed_memory_bytes"):
        return (
            f"It needs {needed} with the cores and memory it insists on. The servers could give it {largest} at most."
        )
    return f"It needs {needed}. The servers could give one job {largest} at most."


def _isolation(evidence: Evidence) -> str:
    barred, servers = evidence.get("barred_servers"), evidence.get("servers")
    queue = _name(evidence, "queue", "its queue")
    if barred is None or servers is None:
        return f"No server that keeps jobs apart well enough for {queue} has room for it."
    if barred == servers:
        return f"No server keeps jobs apart well enough for {queue}."
    return (
        f"It needs {_number(evidence, 'needed_gpus')}. {barred} of {servers} servers do not keep jobs apart well "
        f"enough for {queue}; the others have no room for it."
    )


def _preparing(evidence: Evidence) -> str:
    ready, servers = evidence.get("ready_servers"), evidence.get("servers")
    if not ready or servers is None:
        return "Its Python environment is being prepared. It holds no GPU meanwhile."
    where = "one server" if ready == 1 else f"{ready} servers"
    return (
        f"It needs {_number(evidence, 'needed_gpus')}. Its Python environment is ready on {where} of {servers}, "
        f"without room for it now, and is prepared on another one."
    )


def _no_server(evidence: Evidence) -> str:
    return "No server is up. It starts when one reports."


def _reconfiguring(evidence: Evidence) -> str:
    job = _name(evidence, "job", "the job that leaves")
    return f"It has its GPUs as soon as {job} has written its checkpoint and left."


def _backoff(evidence: Evidence) -> str:
    cause, when = evidence.get("cause"), evidence.get("retry_at")
    failed = f"Its last attempt failed ({cause})." if cause else "Its last attempt failed."
    return f"{failed} It is tried again at {when}." if when else f"{failed} It is tried again soon."


def _held(evidence: Evidence) -> str:
    return f"{_name(evidence, 'by', 'Its owner')} suspended it. It waits to be resumed."


def _paused(evidence: Evidence) -> str:
    return "An admin paused the scheduler. Running jobs go on; nothing new starts."


def _stale(evidence: Evidence) -> str:
    since = evidence.get("since")
    when = f"since {since}" if since else "for too long"
    return f"The scheduler has not finished a round {when}. Running jobs go on; nothing new starts."


_SENTENCES: dict[WaitReason, Callable[[Evidence], str]] = {
    WaitReason.NEW: _new,
    WaitReason.QUEUE_QUOTA: _queue_quota,
    WaitReason.QUEUE_MAX: _queue_max,
    WaitReason.USER_LIMIT: _user_limit,
    WaitReason.ARRAY_LIMIT: _array_limit,
    WaitReason.DEPENDENCY: _dependency,
    WaitReason.NO_CAPACITY: _no_capacity,
    WaitReason.BEHIND_POLICY_ORDER: _behind,
    WaitReason.FRAGMENTATION: _fragmentation,
    WaitReason.CPU_OR_MEMORY: _cpu_or_memory,
    WaitReason.NEVER_FEASIBLE: _never,
    WaitReason.ISOLATION: _isolation,
    WaitReason.PREPARING_ENVIRONMENT: _preparing,
    WaitReason.NO_SERVER: _no_server,
    WaitReason.RECONFIGURING: _reconfiguring,
    WaitReason.BACKOFF: _backoff,
    WaitReason.HELD: _held,
    WaitReason.POLICY_PAUSED: _paused,
    WaitReason.SCHEDULER_STALE: _stale,
}
