"""The sentence that says why a job waits. Numbers come from the evidence of the round; names are added by the shells.

Every member of WaitReason has a sentence, and every sentence still stands when the evidence is empty.
"""

from collections.abc import Callable

from scheduler.core.model.plan import Evidence, WaitReason
from scheduler.core.operations.needed_change import cannot_start, name, quantity


def sentence(reason: WaitReason | str, evidence: Evidence) -> str:
    """Return one or two sentences for a reason.

    Args:
        reason: Why the job waits.
        evidence: Its numbers. Where a shell knows names it adds ``queue`` (of ``queue_id``), ``other_queue`` (of
            ``other_queue_id``) and ``job`` (the one that has to end), ``ahead_jobs`` where it knows the place in
            line; ``retry_at``, ``since`` and the like are ready texts.
    """
    return _SENTENCES[WaitReason(reason)](evidence)


def _holds(evidence: Evidence, limit: str) -> str:
    queue = name(evidence, "queue", "The queue")
    held, most = evidence.get("queue_held_gpus"), evidence.get(limit)
    if held is None or most is None:
        return f"{queue} holds all it may"
    return f"{queue} holds {held} of {quantity(evidence, limit)}"


def _given_back(reason: WaitReason, evidence: Evidence, limit: str) -> str:
    """Return what running jobs of a full queue have to give back, or that nothing they give back is enough."""
    if change := cannot_start(reason, evidence):
        return f" It needs {quantity(evidence, 'needed_gpus')}.{change}"
    needed, held, most = (evidence.get(key) for key in ("needed_gpus", "queue_held_gpus", limit))
    if not isinstance(needed, int) or not isinstance(held, int) or not isinstance(most, int) or held + needed <= most:
        return ""
    return (
        f" It needs {quantity(evidence, 'needed_gpus')}: running jobs there have to give back {held + needed - most}."
    )


def _new(evidence: Evidence) -> str:
    return "The next round decides about it."


def _queue_quota(evidence: Evidence) -> str:
    if not evidence.get("may_borrow"):
        told = f"{_holds(evidence, 'queue_quota_gpus')}, and it borrows none."
        return told + _given_back(WaitReason.QUEUE_QUOTA, evidence, "queue_quota_gpus")
    queue, other = name(evidence, "queue", "the queue"), name(evidence, "other_queue", "another queue")
    held, quota = evidence.get("queue_held_gpus"), evidence.get("queue_quota_gpus")
    others = f"{other} needs its own quota"
    if evidence.get("other_borrows"):
        others = f"{other} comes first for what is lent"
    elif "other_queue_id" not in evidence and "other_queue" not in evidence:
        others = "other queues use the rest"
    if not isinstance(held, int | float) or not isinstance(quota, int | float) or "needed_gpus" not in evidence:
        return f"The quota of {queue} is used up, and {other} needs its own."
    needs = f"Needs {quantity(evidence, 'needed_gpus')}"
    if held < quota:
        left = "one" if quota - held == 1 else quota - held
        return f"{needs}; {left} of {queue}'s quota {'is' if left == 'one' else 'are'} left, and {others}."
    return f"{needs}; {queue} holds {held} of its {quota}, and {others}."


def _queue_max(evidence: Evidence) -> str:
    told = f"{_holds(evidence, 'queue_max_gpus')}, the most it may ever hold."
    return told + _given_back(WaitReason.QUEUE_MAX, evidence, "queue_max_gpus")


def _user_limit(evidence: Evidence) -> str:
    queue = name(evidence, "queue", "the queue")
    most, held = evidence.get("user_max_gpus"), evidence.get("user_held_gpus")
    if most is None or held is None:
        return f"Its owner has all that one user may hold in {queue}."
    limit, needed = quantity(evidence, "user_max_gpus"), quantity(evidence, "needed_gpus")
    if change := cannot_start(WaitReason.USER_LIMIT, evidence):
        return f"One user may hold {limit} in {queue}; it needs {needed}.{change}"
    return f"One user may hold {limit} in {queue}. Its owner's jobs hold, or come first for, {held}; it needs {needed}."


def _array_limit(evidence: Evidence) -> str:
    most, at_work = evidence.get("array_most"), evidence.get("array_at_work")
    if most is None or at_work is None:
        return "Its array has as many jobs at work as it may."
    are = "is or comes first" if at_work == 1 else "are or come first"
    return f"Its array may have {quantity(evidence, 'array_most', 'job')} at work at once, and {at_work} {are}."


_UNTIL = {"completed": "has completed", "failed": "has failed or was cancelled", "ended": "has ended"}


def _dependency(evidence: Evidence) -> str:
    number = evidence.get("first_number")
    job = name(evidence, "job", f"J-{number}" if number else "another job")
    waits = f"It waits until {job} {_UNTIL.get(str(evidence.get('until')), 'has ended')}"
    change = cannot_start(WaitReason.DEPENDENCY, evidence)
    if "ended_jobs" in evidence and evidence.get("array_jobs") != 1:
        return f"{waits}; {evidence['ended_jobs']} of its {evidence.get('array_jobs')} jobs have ended.{change}"
    now = f"; that is {evidence['job_state']} now" if "job_state" in evidence else ""
    more = evidence.get("jobs", 1)
    in_all = f" It waits for {more} jobs in all." if isinstance(more, int) and more > 1 else ""
    return f"{waits}{now}.{in_all}{change}"


def _no_capacity(evidence: Evidence) -> str:
    needs, needed, free = quantity(evidence, "needed_gpus"), evidence.get("needed_gpus"), evidence.get("free_gpus", 0)
    rest = "none is free" if free == 0 else f"{free} {'is' if free == 1 else 'are'} free"
    short = needed - free if isinstance(needed, int) and isinstance(free, int) and needed > free else "enough"
    more = " more" if free and short != "enough" else ""
    return f"It needs {needs}; {rest}. It waits until running jobs give back {short}{more}."


def _behind(evidence: Evidence) -> str:
    free, ahead = evidence.get("free_gpus"), evidence.get("ahead_jobs")
    if "first_needs_gpus" in evidence:
        if ahead == 0:  # what it stood behind has left the line since
            return "Next in line. The next round looks at it again."
        needs = quantity(evidence, "first_needs_gpus")
        return f"Its queue starts jobs strictly in order. The first job ahead waits for {needs}."
    if free is None:
        room = "no GPU is free for it"
    elif free == 0:
        room = "no GPU is free"
    else:
        room = f"it needs {quantity(evidence, 'needed_gpus')}, {free} {'is' if free == 1 else 'are'} free"
    if ahead is None:
        return f"Other jobs are ahead; {room}."
    if not ahead:
        return f"Next in line; {room}."
    return f"{ahead} {'job is' if ahead == 1 else 'jobs are'} ahead; {room}."


def _fragmentation(evidence: Evidence) -> str:
    needed, largest = quantity(evidence, "needed_gpus"), evidence.get("largest_free_gpus", 0)
    if evidence.get("too_spread"):
        return f"It needs {needed}. So many are free, but not where this round may seat it."
    most = evidence.get("max_servers", 1)
    where = "No server has" if most == 1 else f"No {most} servers together have" if most else "The servers do not have"
    block = "No GPU is free." if largest == 0 else f"The largest free block is {largest}."
    return f"{where} {needed} free. {block}"


def _cpu_or_memory(evidence: Evidence) -> str:
    wants = [quantity(evidence, "needed_cpus", "core")] if "needed_cpus" in evidence else []
    memory = evidence.get("needed_memory_bytes")
    if isinstance(memory, int | float):
        wants.append(f"{memory / 2**30:,.1f} GiB of memory")
    insists = f" It insists on {' and '.join(wants)}." if wants else ""
    return f"Servers with {quantity(evidence, 'needed_gpus')} free have too few cores or too little memory.{insists}"


def _drained(evidence: Evidence) -> str:
    """Return the largest of the drained servers, with how many more there are and since when; empty for none."""
    others = int(evidence.get("drained_servers", 1)) - 1
    more = f" and {others} more" if others else ""
    since = f" since {evidence['drained_since']}" if evidence.get("drained_since") else ""
    return f"{evidence['drained']}{more}, drained{since}" if evidence.get("drained") else ""


def _never(evidence: Evidence) -> str:
    if drained := _drained(evidence):
        return f"It waits for {drained}: no other server could hold it even when empty."
    largest, change = evidence.get("largest_possible_gpus"), cannot_start(WaitReason.NEVER_FEASIBLE, evidence)
    if largest is None:
        return f"No server could hold it even when empty.{change}"
    needed = quantity(evidence, "needed_gpus")
    if evidence.get("needed_cpus") or evidence.get("needed_memory_bytes"):
        needed += " with the cores and memory it insists on"
    return f"It needs {needed}. The servers could give one job {largest} at most.{change}"


def _isolation(evidence: Evidence) -> str:
    barred, servers = evidence.get("barred_servers"), evidence.get("servers")
    queue = name(evidence, "queue", "its queue")
    if barred is None or servers is None:
        return f"No server that keeps jobs apart well enough for {queue} has room for it."
    change = cannot_start(WaitReason.ISOLATION, evidence)
    if barred == servers:
        return f"No server keeps jobs apart well enough for {queue}.{change}"
    do = "does" if barred == 1 else "do"
    return (
        f"It needs {quantity(evidence, 'needed_gpus')}. {barred} of {servers} servers {do} not keep jobs apart well "
        f"enough for {queue}; the others {'are too small' if change else 'have no room'} for it.{change}"
    )


def _preparing(evidence: Evidence) -> str:
    ready, servers = evidence.get("ready_servers"), evidence.get("servers")
    if not ready or servers is None:
        return "Its Python environment is being prepared. It holds no GPU meanwhile."
    where = "one server" if ready == 1 else f"{ready} servers"
    return (
        f"It needs {quantity(evidence, 'needed_gpus')}. Its Python environment is ready on {where} of {servers}, "
        f"without room for it now, and is prepared on another one."
    )


def _no_server(evidence: Evidence) -> str:
    if drained := _drained(evidence):
        return f"No server takes jobs. It waits for {drained}."
    return "No server is up. Nothing starts before one reports."


def _reconfiguring(evidence: Evidence) -> str:
    missing = evidence.get("missing_gpus")
    held = f"{missing} of them" if missing else "cores or memory there" if missing == 0 else "some of them"
    is_held = "is" if missing == 1 else "are"
    return f"It was granted {quantity(evidence, 'granted_gpus')}; {held} {is_held} still held by jobs that are leaving."


def _backoff(evidence: Evidence) -> str:
    cause, when = evidence.get("cause"), evidence.get("retry_at")
    failed = f"Its last attempt failed ({cause})." if cause else "Its last attempt failed."
    return f"{failed} It is tried again at {when}." if when else f"{failed} It is tried again soon."


def _held(evidence: Evidence) -> str:
    return f"{name(evidence, 'by', 'Its owner')} suspended it. It waits to be resumed."


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
