"""Submitting, cancelling, suspending and resuming jobs."""

import hashlib
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, User
from pytest_django import DjangoCaptureOnCommitCallbacks

from scheduler.core.model.errors import Conflict, NotAllowed, SpecInvalid
from scheduler.core.model.lifecycle import HOLDING, JobState
from scheduler.models import Event, Job, Profile, Queue
from scheduler.models.queue import Role
from scheduler.notify import use_bell
from scheduler.services.jobs.cancel_suspend_resume import job_cancel, job_resume, job_suspend
from scheduler.services.jobs.check import job_check
from scheduler.services.jobs.profiles import fingerprint_of
from scheduler.services.jobs.submit import job_submit
from tests.support.live.ports import MemoryBell
from tests.support.rows.factories import (
    AT,
    GIB,
    SerialIds,
    job_make,
    job_move,
    member_make,
    queue_make,
    server_make,
    spec_make,
)

pytestmark = pytest.mark.django_db

Act = Callable[..., Job]
IDS = SerialIds()


@pytest.fixture
def vision() -> Queue:
    """A queue."""
    return queue_make("vision")


@pytest.fixture
def member(vision: Queue) -> User:
    """A member of vision."""
    return member_make(vision, name="member")


def data(**changes: Any) -> dict[str, Any]:
    """Return a spec as a user sends it."""
    return {"apiVersion": "v1", "name": "train", "queue": "vision", "command": ["true"], **changes}


def refused(actor: User, sent: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return pointer, code and sentence of everything wrong with ``sent``."""
    with pytest.raises(SpecInvalid) as caught:
        job_check(actor=actor, data=sent)
    return [(error.pointer, error.code, error.detail) for error in caught.value.errors]


def submit(actor: User, **changes: Any) -> Job:
    """Submit a job as ``actor``."""
    return job_submit(actor=actor, spec=job_check(actor=actor, data=data(**changes)), at=AT, ids=IDS)


def test_submitted_job_waits_with_a_reason(member: User, vision: Queue) -> None:
    """A new job is queued, says that no round has looked at it, and has its whole spec with defaults."""
    job = submit(member, resources={"gpus": 2}, schedule={"priority": 70, "preemptible": False}, retry={"max": 1})
    stored = Job.objects.get(pk=job.pk)

    assert (stored.state, stored.wait_reason, stored.wait_since) == ("queued", "new", AT)
    assert (stored.queue, stored.owner, stored.submitted_at) == (vision, member, AT)
    assert (stored.num_gpus, stored.priority, stored.preemptible, stored.max_attempts) == (2, 70, False, 2)
    assert (
        stored.spec
        == spec_make(resources={"gpus": 2}, schedule={"priority": 70, "preemptible": False}, retry={"max": 1}).to_json()
    )


def test_submission_is_the_first_event(member: User) -> None:
    """The history of a job begins with who submitted it."""
    event = Event.objects.get(job=submit(member))

    assert (event.number, event.kind, event.old_state, event.new_state) == (1, "job_state", "", "queued")
    assert (event.actor, event.reason, event.at) == ("member", "submit", AT)


def test_numbers_of_jobs_rise_without_gaps(member: User) -> None:
    """Jobs are counted; a refused one takes no number."""
    numbers = [submit(member).number, submit(member).number]
    with pytest.raises(SpecInvalid):
        submit(member, queue="nowhere")

    assert [*numbers, submit(member).number] == [1, 2, 3]


def test_submission_asks_for_a_round_after_the_commit(
    member: User, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    """An early round is asked for, but never for a job that was rolled back."""
    bell = MemoryBell()
    use_bell(bell)
    try:
        with django_capture_on_commit_callbacks(execute=True):
            job = submit(member)
            before = list(bell.triggers)
    finally:
        use_bell(None)

    assert (before, bell.triggers) == ([], ["submit"])
    assert f"job.{job.pk}" in bell.touched


def test_all_that_is_wrong_is_named_at_once(member: User) -> None:
    """What the spec alone shows and what only the cluster knows come in one answer."""
    server_make(gpus=4)
    entries = refused(
        member,
        data(name="", queue="nowhere", profile="unheard", resources={"gpus": 5}, schedule={"priority": 101}),
    )

    assert [pointer for pointer, _, _ in entries] == [
        "/name",
        "/schedule/priority",
        "/queue",
        "/profile",
        "/resources/gpus",
    ]


def test_more_gpus_than_the_servers_have_are_refused(member: User) -> None:
    """More than the healthy GPUs of as many servers as it may use: the refusal says how many those are."""
    server_make(gpus=2)
    server_make(gpus=8, broken=[3])
    hint = "GPUs must be between 1 and 7 on one server. You asked for 8. With max_servers of 2 instead of 1 it fits."

    assert refused(member, data(resources={"gpus": 8})) == [("/resources/gpus", "capacity", hint)]
    assert job_check(actor=member, data=data(resources={"gpus": 7})).resources.gpus == 7
    assert job_check(actor=member, data=data(resources={"gpus": 9, "max_servers": 2})).resources.max_servers == 2
    assert refused(member, data(resources={"gpus": 10, "max_servers": 4})) == [
        ("/resources/gpus", "capacity", "GPUs must be between 1 and 9 on 4 servers. You asked for 10.")
    ]
    most = "GPUs must be between 1 and 7 on one server. You asked for 64. With max_servers of 2 instead of 1 it can be"
    assert refused(member, data(resources={"gpus": 64})) == [("/resources/gpus", "capacity", f"{most} up to 9.")]
    assert refused(member, data(resources={"gpus": 12, "min_gpus": 8, "max_gpus": 16})) == [
        ("/resources/min_gpus", "capacity", hint.replace("GPUs", "min_gpus", 1))
    ]


def test_an_elastic_job_wider_than_each_server_is_stored(member: User) -> None:
    """Its least number fits on one, and then cores and memory are held against the servers that hold the least."""
    server_make(gpus=4)

    assert job_check(actor=member, data=data(resources={"gpus": 8, "min_gpus": 2})).resources.min_gpus == 2
    [(pointer, code, said)] = refused(member, data(resources={"gpus": 8, "min_gpus": 2, "cpus": 4096}))
    assert (pointer, code) == ("/resources/cpus", "capacity")
    assert "no server with 2 GPUs has more" in said


def test_a_wrong_resource_hides_no_other(member: User) -> None:
    """The GPUs are checked beside memory that cannot be read; with a wrong width nothing is said of the rest."""
    server_make(gpus=2)
    wrong = refused(member, data(command=["python train.py"], resources={"gpus": 8, "memory": "much"}))

    assert [pointer for pointer, _, _ in wrong] == ["/resources/memory", "/command/0", "/resources/gpus"]
    [only] = refused(member, data(resources={"gpus": "8", "cpus": 4000}))
    assert only[0] == "/resources/gpus"


def test_any_size_is_accepted_before_a_server_has_reported(member: User) -> None:
    """An empty cluster refuses nothing: the job waits with a reason until servers come."""
    server_make(gpus=0, state="joining", num_cpus=0, memory_bytes=0)  # type: ignore[arg-type]  # the stored text

    assert submit(member, resources={"gpus": 128, "cpus": 1000}).num_gpus == 128


def test_cores_and_memory_are_held_against_servers_with_enough_gpus(member: User) -> None:
    """A number of cores that only a server with too few GPUs has is refused."""
    server_make(gpus=1, num_cpus=64, memory_bytes=512 * GIB)
    server_make(gpus=4, num_cpus=8, memory_bytes=32 * GIB)
    asked = {"gpus": 2, "cpus": 16, "memory": "64GiB"}

    assert [detail for _, _, detail in refused(member, data(resources=asked))] == [
        "cpus must be at most 8: no server with 2 GPUs has more. You asked for 16.",
        "memory must be at most 32GiB: no server with 2 GPUs has more. You asked for 64GiB.",
    ]
    assert job_check(actor=member, data=data(resources={**asked, "gpus": 1})).resources.cpus == 16


def test_queue_that_one_may_not_see_does_not_exist(member: User) -> None:
    """An existing queue of others and one that never was are refused in the same words."""
    queue_make("speech")
    sentences = [refused(member, data(queue=name))[0] for name in ("speech", "nowhere")]

    assert sentences[0][2].replace("speech", "nowhere") == sentences[1][2]
    assert sentences[0][:2] == ("/queue", "unknown")
    assert "You may submit to vision." in sentences[0][2]


def test_jobs_go_to_leaves(member: User, vision: Queue) -> None:
    """A queue with queues under it takes no jobs and names those that do."""
    queue_make("vision/detection", parent=vision)

    assert refused(member, data()) == [
        ("/queue", "not_leaf", "vision has queues under it. Submit to vision/detection.")
    ]
    assert submit(member, queue="vision/detection").queue.name == "vision/detection"


def test_viewer_may_not_submit(vision: Queue) -> None:
    """Who may only look is told so, by name of the queue."""
    viewer = member_make(vision, Role.VIEWER)
    with pytest.raises(NotAllowed, match="You see vision but may not submit"):
        job_check(actor=viewer, data=data())
    with pytest.raises(NotAllowed):
        job_submit(actor=viewer, spec=spec_make(), at=AT, ids=IDS)

    assert not Job.objects.exists()


@pytest.mark.parametrize("actor", [AnonymousUser(), User(username="gone", is_active=False)])
def test_nobody_submits_without_signing_in(actor: Any, vision: Queue) -> None:
    """Anonymous and deactivated users are refused before anything is looked at."""
    with pytest.raises(NotAllowed):
        job_check(actor=actor, data={})


def test_known_profile_is_kept_with_the_job(member: User) -> None:
    """A job names its profile; an unknown name is refused with those that are known."""
    profile = Profile.objects.create(fingerprint="resnet18")

    assert submit(member, profile="resnet18").profile == profile
    assert refused(member, data(profile="resnet19")) == [
        (
            "/profile",
            "unknown",
            "There is no profile resnet19. Known are resnet18. Leave profile empty when it is not measured.",
        )
    ]


def test_queued_job_is_cancelled_at_once(member: User, vision: Queue) -> None:
    """Nothing of it runs, so nothing has to stop first."""
    job = job_cancel(actor=member, job=job_make(vision, owner=member), at=AT)
    stored = Job.objects.get(pk=job.pk)

    assert (stored.state, stored.end_cause, stored.ended_at) == ("cancelled", "cancelled", AT)
    assert stored.end_detail == "Cancelled by member while queued."


@pytest.mark.parametrize("state", sorted(HOLDING))
def test_job_that_holds_gpus_is_asked_to_stop(member: User, vision: Queue, state: JobState) -> None:
    """The wish is written with an event; the state follows when the engine has seen it through."""
    job = job_make(vision, owner=member, state=state)
    before = job.event_count
    job = job_cancel(actor=member, job=job, at=AT)
    event = Event.objects.get(job=job, number=before + 1)

    assert (job.state, job.wanted) == (state, "cancel")
    assert (event.kind, event.actor, event.reason) == ("job_wanted", "member", "cancel")


@pytest.mark.parametrize("state", [JobState.QUEUED, JobState.RUNNING, JobState.SUSPENDED])
def test_cancelling_twice_changes_nothing(member: User, vision: Queue, state: JobState) -> None:
    """A repeated request is no error and no second event."""
    job = job_cancel(actor=member, job=job_make(vision, owner=member, state=state), at=AT)
    again = job_cancel(actor=member, job=job, at=AT)

    assert again.event_count == job.event_count


@pytest.mark.parametrize("act", [job_cancel, job_suspend, job_resume])
@pytest.mark.parametrize("state", [JobState.COMPLETED, JobState.FAILED])
def test_ended_job_stays_as_it_is(member: User, vision: Queue, act: Act, state: JobState) -> None:
    """Nothing can be done with a job that has ended."""
    job = job_make(vision, owner=member, state=state)
    with pytest.raises(Conflict, match=f"J-{job.number} has ended already"):
        act(actor=member, job=job, at=AT)


@pytest.mark.parametrize("act", [job_suspend, job_resume])
def test_job_that_is_being_cancelled_is_not_suspended_or_resumed(member: User, vision: Queue, act: Act) -> None:
    """A cancel is for good."""
    job = job_cancel(actor=member, job=job_make(vision, owner=member, state=JobState.RUNNING), at=AT)
    with pytest.raises(Conflict, match="is being cancelled"):
        act(actor=member, job=job, at=AT)


def test_queued_job_is_suspended_and_resumed_at_once(member: User, vision: Queue) -> None:
    """A job that holds nothing moves at once, there and back, and waits afresh."""
    job = job_suspend(actor=member, job=job_make(vision, owner=member), at=AT)
    suspended = (job.state, job.wanted, job.wait_reason)
    job = job_resume(actor=member, job=job, at=AT)

    assert suspended == ("suspended", "suspend", "")
    assert (job.state, job.wanted, job.wait_reason) == ("queued", "run", "new")


def test_suspending_a_running_job_is_a_wish_that_can_be_taken_back(member: User, vision: Queue) -> None:
    """While it is on its way out, resuming it means: back to the queue instead of suspended."""
    job = job_suspend(actor=member, job=job_make(vision, owner=member, state=JobState.RUNNING), at=AT)
    wished = (job.state, job.wanted)
    job_move(job, JobState.SUSPENDING, at=AT)
    job = job_resume(actor=member, job=job, at=AT)

    assert wished == ("running", "suspend")
    assert (job.state, job.wanted) == ("suspending", "run")
    assert [e.reason for e in Event.objects.filter(job=job, kind="job_wanted").order_by("number")] == [
        "suspend",
        "resume",
    ]


def test_suspended_job_can_be_cancelled(member: User, vision: Queue) -> None:
    """It does not have to be resumed first."""
    job = job_make(vision, owner=member, state=JobState.SUSPENDED)

    assert job_cancel(actor=member, job=job, at=AT).state == JobState.CANCELLED


def test_service_acts_on_the_job_as_it_is_now(member: User, vision: Queue) -> None:
    """A page that shows a job as queued cancels it all the same after it was launched."""
    shown = job_make(vision, owner=member)
    job_move(Job.objects.get(pk=shown.pk), JobState.LAUNCHING, at=AT)
    job = job_cancel(actor=member, job=shown, at=AT)

    assert (job.state, job.wanted) == (JobState.LAUNCHING, "cancel")


def test_a_profile_is_of_one_python_environment() -> None:
    """The same command with another torch runs at another rate; one without an environment keeps what was measured."""
    plain = spec_make()
    files = {"old.txt": "torch==2.0", "new.txt": "torch"}
    chosen = [spec_make(python={"requirements": name}, files=files) for name in files]
    of_text = hashlib.sha256(b'[["true"], {}, {}]').hexdigest()[:16]

    assert fingerprint_of(plain) == f"auto-{of_text}"
    assert len({fingerprint_of(spec) for spec in (plain, *chosen)}) == 3
