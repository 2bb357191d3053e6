"""Whether place, reason and checks of the jobs in line agree after a round."""

from scheduler.core.model.plan import Plan, Waiting, WaitReason
from scheduler.core.operations.needed_change import needed_change
from scheduler.core.operations.place_in_line import line_of
from scheduler.core.operations.reasons import sentence
from scheduler.core.operations.wait_checks import failing_check
from tests.support.oracle.told.waits import false_wait
from tests.support.oracle.told.world import World

HELD = (WaitReason.ARRAY_LIMIT, WaitReason.DEPENDENCY)


def line_wrong(world: World, plan: Plan) -> list[str]:
    """Return one line for each job whose place does not agree with what is told of it."""
    line, stopped = line_of(plan), {stop.job for stop in plan.preemptions}
    wrong = [] if [entry.job for entry in line] == [wait.job for wait in plan.waiting] else ["the line lacks jobs"]
    with_place = [entry for entry in line if entry.place is not None]
    if [entry.place for entry in with_place] != list(range(1, len(with_place) + 1)):
        wrong.append("places have gaps")
    for job, place, (reason, evidence) in line:
        may_start = not needed_change(reason, evidence) or reason is WaitReason.NO_SERVER
        if (place is not None) != (may_start and reason not in HELD and job not in stopped):
            wrong.append(f"{job} has place {place}: {reason.value} {evidence}")
        if place is None:
            continue
        told = {**evidence, "ahead_jobs": place - 1}
        says_ahead = failing_check(reason, told)[0] == "Jobs ahead"
        if says_ahead and (place == 1 or sentence(reason, told).startswith("Next in line")):
            wrong.append(f"{job} is first and fails the check of jobs ahead")
        if place == 1 and reason is WaitReason.BEHIND_POLICY_ORDER and "free_gpus" in evidence:
            wrong.append(f"{job} is first and stands behind others")
        if place == 1 and (false := false_wait(world, Waiting(job=job, position=1, reason=reason, evidence=evidence))):
            wrong.append(f"{job} is first: {reason.value} {evidence}: {false}")
    return wrong
