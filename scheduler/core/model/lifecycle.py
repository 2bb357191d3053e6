"""States of a job, the one table of allowed moves between them, and the causes of an attempt's end.

Pure; the one function that writes a state is in ``services/jobs/state.py``.
"""

from enum import StrEnum

from scheduler.core.model.errors import InvalidTransition
from scheduler.core.model.plan import WaitReason


class JobState(StrEnum):
    """States of a job; each comment says what is true in it."""

    QUEUED = "queued"  # waits for a round; has no open lease; carries a wait reason
    LAUNCHING = "launching"  # has open leases and an open attempt; its process is not seen yet
    RUNNING = "running"  # its process is seen by the agent
    PARKED = "parked"  # its process waits for its turn, off its GPUs; keeps memory on its server; carries a wait reason
    PREEMPTING = "preempting"  # asked to checkpoint and end; keeps its leases until it has ended
    SUSPENDING = "suspending"  # its owner asked for it; like preempting, but goes to suspended
    SUSPENDED = "suspended"  # stopped by a user: no lease, not planned until resumed
    COMPLETED = "completed"  # its command ended with exit code 0
    FAILED = "failed"  # ended for a cause that is not retried, or retries are used up
    CANCELLED = "cancelled"  # ended because a user asked for it


TRANSITIONS: dict[JobState, frozenset[JobState]] = {
    JobState.QUEUED: frozenset(
        {
            JobState.LAUNCHING,
            JobState.SUSPENDED,
            JobState.COMPLETED,  # it had, on a server that was silent and is heard again
            JobState.FAILED,  # its Python environment cannot be built
            JobState.CANCELLED,
        }
    ),
    JobState.LAUNCHING: frozenset(
        {
            JobState.RUNNING,
            JobState.QUEUED,  # the server was lost, or the launch failed for infrastructure reasons
            JobState.PREEMPTING,
            JobState.SUSPENDING,
            JobState.COMPLETED,  # it ended before the first report
            JobState.FAILED,
            JobState.CANCELLED,
        }
    ),
    JobState.RUNNING: frozenset(
        {
            JobState.PARKED,
            JobState.PREEMPTING,
            JobState.SUSPENDING,
            JobState.QUEUED,  # server lost, or a retry
            JobState.COMPLETED,
            JobState.FAILED,
            JobState.CANCELLED,
        }
    ),
    JobState.PARKED: frozenset(
        {
            JobState.RUNNING,  # its turn, on the same server
            JobState.PREEMPTING,  # it goes on elsewhere, or its memory is needed
            JobState.SUSPENDING,
            JobState.QUEUED,  # server lost, or a retry
            JobState.COMPLETED,
            JobState.FAILED,
            JobState.CANCELLED,
        }
    ),
    JobState.PREEMPTING: frozenset({JobState.QUEUED, JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED}),
    JobState.SUSPENDING: frozenset(
        {
            JobState.SUSPENDED,
            JobState.QUEUED,  # resumed while it was stopping
            JobState.COMPLETED,
            JobState.FAILED,
            JobState.CANCELLED,
        }
    ),
    JobState.SUSPENDED: frozenset({JobState.QUEUED, JobState.CANCELLED}),
    JobState.COMPLETED: frozenset(),
    JobState.FAILED: frozenset(),
    JobState.CANCELLED: frozenset({JobState.QUEUED, JobState.SUSPENDED}),  # its cancel while it waited is taken back
}

# States of jobs that have ended. No round, report or rule moves a job out of them: only a user takes a cancel back.
TERMINAL = frozenset({JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED})
# States in which a job holds leases: the GPUs are not free until it leaves them.
HOLDING = frozenset({JobState.LAUNCHING, JobState.RUNNING, JobState.PREEMPTING, JobState.SUSPENDING})
# States in which an attempt of the job is open.
OPEN = HOLDING | {JobState.PARKED}
# States in which a job waits for GPUs and carries the reason.
WAITING = frozenset({JobState.QUEUED, JobState.PARKED})
# States that a round may decide about.
PLANNABLE = frozenset({JobState.QUEUED, JobState.LAUNCHING, JobState.RUNNING, JobState.PARKED})


# How pages, lists and REST call a job that is queued because its Python environment is not ready.
PREPARING = "preparing"


def phase_of(state: str, wait_reason: str) -> str:
    """Return what a job is called: its state, or that it is preparing."""
    is_preparing = state == JobState.QUEUED and wait_reason == WaitReason.PREPARING_ENVIRONMENT
    return PREPARING if is_preparing else str(state)


def check_transition(before: JobState, after: JobState) -> None:
    """Raise InvalidTransition unless a job may go from ``before`` to ``after``."""
    if after not in TRANSITIONS[before]:
        raise InvalidTransition(f"{before} -> {after}")


class EndCause(StrEnum):
    """Why an attempt ended. A closed list."""

    COMPLETED = "completed"  # exit code 0
    PREEMPTED = "preempted"  # stopped for the scheduler, resumes later
    SUSPENDED = "suspended"  # stopped for a user, resumes when asked
    CANCELLED = "cancelled"  # stopped for a user, for good
    DEPENDENCY = "dependency"  # what the job waits for ended otherwise than it asks, so it never starts
    EXIT_CODE = "exit_code"  # the command ended with another exit code than 0
    SIGNAL = "signal"  # the command was ended by a signal that we did not send
    OUT_OF_MEMORY = "out_of_memory"  # the process tree went over its granted memory
    OUT_OF_DISK = "out_of_disk"  # the working directory went over its size, or the disk is full
    COMMAND_NOT_FOUND = "command_not_found"  # the command could not be started at all
    SECRET_MISSING = "secret_missing"  # noqa: S105  (a secret that its spec names was gone when it was to start)
    ENVIRONMENT = "environment"  # the Python environment that its spec asks for could not be made, or is not there
    TIME_LIMIT = "time_limit"  # ran longer than the spec's maximum
    STALLED = "stalled"  # had reported progress, and then none for as long as its spec allows
    PROCESS_LIMIT = "process_limit"  # the process tree had more processes than a job may have
    SMOKE_PASSED = "smoke_passed"  # its first iterations on one GPU went well; its whole gang is next
    EARLY_STOPPED = "early_stopped"  # its loss had stopped falling, and its spec asks to end it then
    LAUNCH_FAILED = "launch_failed"  # the agent could not set the attempt up
    SERVER_LOST = "server_lost"  # the server was silent for longer than its lease
    SUPERVISOR_LOST = "supervisor_lost"  # the supervisor died and its job with it
    LAUNCH_UNCONFIRMED = "launch_unconfirmed"  # no agent reported the launch in time


# Ends that a rule of the scheduler brings about and that are named after it.
ENDS_BY_RULE = frozenset({EndCause.SMOKE_PASSED, EndCause.EARLY_STOPPED})
RANK_ENDED = "rank_ended"  # why the other processes of a gang are stopped when one of them has ended
# Causes that are not the job's fault: the job goes back to its queue and this is not counted as a retry.
INFRASTRUCTURE = frozenset(
    {
        EndCause.PREEMPTED,
        EndCause.LAUNCH_FAILED,
        EndCause.SERVER_LOST,
        EndCause.SUPERVISOR_LOST,
        EndCause.LAUNCH_UNCONFIRMED,
    }
)
