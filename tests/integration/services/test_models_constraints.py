"""Facts that the database itself refuses to break, whatever the code above it does."""

from collections.abc import Callable
from typing import Any

import pytest
from django.apps import apps
from django.db import IntegrityError, models, transaction

from scheduler.core.model.lifecycle import JobState
from scheduler.models import (
    Attempt,
    Cluster,
    CodeFolder,
    CodeGit,
    CodeSent,
    Configuration,
    Delivery,
    Environment,
    Event,
    Experiment,
    Gang,
    GangMember,
    Gpu,
    Identity,
    Job,
    JobDay,
    Lease,
    LeaseGpu,
    MailChoice,
    Membership,
    Queue,
    QueueBudget,
    QuotaRequest,
    SavedView,
    Scenario,
    ScenarioRun,
    Secret,
    Server,
    ServerEnvironment,
    Shadow,
    SpecTemplate,
    StartEstimate,
    UsageHour,
    WrittenLoss,
)
from scheduler.models.queue import Role
from tests.support.rows.code import digest_of
from tests.support.rows.experiments import experiment_make
from tests.support.rows.factories import (
    AT,
    attempt_make,
    job_make,
    member_make,
    queue_make,
    quota_request_make,
    server_make,
    ulid_make,
    user_make,
)
from tests.support.rows.notices import delivery_make, webhook_make
from tests.support.rows.scenarios import scenario_make

pytestmark = pytest.mark.django_db


def _copy(row: models.Model, **changes: Any) -> None:
    """Insert a second row like ``row``."""
    row.pk = None
    for name, value in changes.items():
        setattr(row, name, value)
    row._state.adding = True
    row.save(force_insert=True)


def _environment_on_a_server() -> ServerEnvironment:
    """Return the row of an environment that a server was asked for."""
    environment = Environment.objects.create(
        digest="e" * 64, queue=queue_make(), kind="requirements", source="requirements.txt", files={}, created_at=AT
    )
    return ServerEnvironment.objects.create(environment=environment, server=server_make(), asked_at=AT, changed_at=AT)


def _requests() -> models.QuerySet[QuotaRequest]:
    """Return one open request for quota."""
    return QuotaRequest.objects.filter(pk=quota_request_make(queue_make(), user_make()).pk)


def _budgets() -> models.QuerySet[QueueBudget]:
    """Return one budget."""
    made = QueueBudget.objects.create(queue=queue_make(), month=AT.date().replace(day=1), amount=1.0)
    return QueueBudget.objects.filter(pk=made.pk)


def _event_twice() -> None:
    job = job_make()
    Event.objects.create(at=AT, kind="job_state", actor="x", job=job, number=1)


def _second_open_attempt() -> None:
    job = job_make(state=JobState.RUNNING)
    Attempt.objects.create(id=ulid_make(), job=job, number=2, num_gpus=1, epoch=1, round_number=1, created_at=AT)


def _gpu_in_two_leases() -> None:
    server = server_make(gpus=1)
    attempt_make(job_make(), server=server)
    other = attempt_make(job_make())
    LeaseGpu.objects.create(lease=other.leases.get(), gpu=server.gpus.get())


def _second_lease_on_server() -> None:
    lease = attempt_make(job_make()).leases.get()
    _copy(lease)


def _member() -> GangMember:
    attempt = attempt_make(job_make())
    gang = Gang.objects.create(attempt=attempt, address="127.0.0.1", port=20_000, secret="0" * 32)
    gpu = LeaseGpu.objects.get(lease__attempt=attempt).gpu
    return GangMember.objects.create(id=attempt.pk, gang=gang, number=0, gpu=gpu)


def _token_twice() -> None:
    from scheduler.models import ApiToken

    for _ in range(2):
        ApiToken.objects.create(user=user_make(), name="t", prefix="cw_", sha256="0" * 64, created_at=AT)


def _key_twice() -> None:
    from scheduler.models import IdempotencyKey

    user = user_make()
    for _ in range(2):
        IdempotencyKey.objects.create(
            user=user, route="jobs", key="k", body_hash="", status=201, body={}, created_at=AT
        )


def _experiments() -> models.QuerySet[Experiment]:
    made = experiment_make(queue_make(), user_make())
    return Experiment.objects.filter(pk=made.pk)


def _scenarios() -> models.QuerySet[Scenario]:
    made = scenario_make(user_make(admin=True))
    return Scenario.objects.filter(pk=made.pk)


def _run_of_scenario() -> models.QuerySet[ScenarioRun]:
    return ScenarioRun.objects.filter(scenario=_scenarios().get(), variant=0)


def _estimate_twice() -> None:
    job = job_make()
    for number in (1, 2):
        StartEstimate.objects.create(job=job, round_number=number, made_at=AT)


def _delivery(**columns: Any) -> Delivery:
    return delivery_make(webhook_make(user_make()), **columns)


def _secret(**columns: Any) -> Secret:
    owner = columns or {"user": user_make()}
    by = {"created_by": "lea", "changed_by": "lea", "created_at": AT, "changed_at": AT}
    return Secret.objects.create(name="wandb", sealed="1:x", **owner, **by)


def _delivery_twice() -> None:
    job_make()
    _copy(_delivery(event=Event.objects.latest("pk")))


def _mail_twice() -> None:
    job_make()
    choice = MailChoice.objects.create(user=user_make(), notices=[], first_event=0)
    for _ in range(2):
        Delivery.objects.create(mail=choice, event=Event.objects.latest("pk"), body="", created_at=AT, next_at=AT)


def _identity_twice() -> None:
    for _ in range(2):
        Identity.objects.create(user=user_make(), issuer="https://id.example", subject="7", created_at=AT)


def _job(**columns: Any) -> Callable[[], None]:
    """Return an update of a queued job that must fail."""
    return lambda: _update(Job.objects.filter(pk=job_make().pk), **columns)


def _update(rows: models.QuerySet[Any], **columns: Any) -> None:
    assert rows.update(**columns) == 1


def _running(**columns: Any) -> Callable[[], None]:
    return lambda: _update(Job.objects.filter(pk=job_make(state=JobState.RUNNING).pk), **columns)


BREAKS: dict[str, Callable[[], None]] = {
    "cluster_is_single": lambda: _copy(Cluster(id=1), id=2),
    "queue_weight_positive": lambda: _update(Queue.objects.filter(pk=queue_make().pk), weight=0),
    "queue_max_covers_quota": lambda: _update(Queue.objects.filter(pk=queue_make(quota_gpus=4).pk), max_gpus=3),
    "queue_not_own_parent": lambda: _update(Queue.objects.filter(pk=queue_make().pk), parent=models.F("id")),
    "queue_idle_action_known": lambda: _update(Queue.objects.filter(pk=queue_make().pk), idle_action="sell"),
    "membership_once": lambda: _copy(Membership.objects.get(user=member_make(queue_make()))),
    "membership_role_known": lambda: _update(
        Membership.objects.filter(user=member_make(queue_make(), Role.LEAD)), role="owner"
    ),
    "server_state_known": lambda: _update(Server.objects.filter(pk=server_make().pk), state="gone"),
    "server_acks_only_what_was_decided": lambda: _update(
        Server.objects.filter(pk=server_make().pk), acked_generation=2
    ),
    "gpu_index_once": lambda: _copy(Gpu.objects.filter(server=server_make(gpus=1)).get(), uuid="other"),
    "gpu_uuid_once": lambda: _copy(Gpu.objects.filter(server=server_make(gpus=1)).get(), index=9),
    "job_state_known": _job(state="sleeping", wait_reason=""),
    "job_asks_a_gpu": _job(num_gpus=0),
    "job_reason_exactly_when_waiting": _job(wait_reason=""),
    "job_reason_exactly_when_waiting while running": _running(wait_reason="no_capacity"),
    "job_end_time_exactly_when_ended": _job(ended_at=AT),
    "job_end_time_exactly_when_ended without time": _running(state=JobState.COMPLETED),
    "job_wanted_known": _job(wanted="sleep"),
    "attempt_number_once": lambda: _copy(Attempt.objects.get(job=job_make(state=JobState.COMPLETED)), id=ulid_make()),
    "attempt_one_open_per_job": _second_open_attempt,
    "attempt_state_known": lambda: _update(Attempt.objects.filter(pk=attempt_make(job_make()).pk), state="lost"),
    "attempt_wanted_known": lambda: _update(Attempt.objects.filter(pk=attempt_make(job_make()).pk), wanted="fly"),
    "attempt_ended_has_time": lambda: _update(Attempt.objects.filter(pk=attempt_make(job_make()).pk), state="ended"),
    "attempt_ended_has_time while open": lambda: _update(
        Attempt.objects.filter(pk=attempt_make(job_make()).pk), ended_at=AT
    ),
    "lease_one_open_per_server": _second_lease_on_server,
    "job_weight_positive": _job(weight=0),
    "lease_has_a_gpu_or_only_memory": lambda: _update(
        Lease.objects.filter(attempt=attempt_make(job_make())), num_gpus=0
    ),
    "gpu_leased_once": _gpu_in_two_leases,
    "lease_gpu_once": lambda: _copy(LeaseGpu.objects.get(lease__attempt=attempt_make(job_make())), released_at=AT),
    "gang_member_number_once": lambda: _copy(_member(), id=ulid_make()),
    "gang_member_ended_has_cause": lambda: _update(GangMember.objects.filter(pk=_member().pk), ended_at=AT),
    "experiment_state_known": lambda: _update(_experiments(), state="asleep"),
    "experiment_gives_feedback_early": lambda: _update(_experiments(), feedback_steps=100),
    "configuration_number_once": lambda: _copy(
        Configuration.objects.get(experiment=_experiments().get()), job_id=job_make().pk
    ),
    "scenario_state_known": lambda: _update(_scenarios(), state="asleep"),
    "scenario_end_time_exactly_when_ended": lambda: _update(_scenarios(), ended_at=AT),
    "scenario_end_time_exactly_when_ended (ended)": lambda: _update(_scenarios(), state="completed"),
    "scenario_run_once": lambda: _copy(_run_of_scenario().get()),
    "scenario_run_state_known": lambda: _update(_run_of_scenario(), state="asleep"),
    "scenario_run_completed_has_result": lambda: _update(_run_of_scenario(), state="completed"),
    "start_estimate_one_open_per_job": _estimate_twice,
    "event_number_once": _event_twice,
    "event_of_job_is_numbered": lambda: _update(Event.objects.filter(job=job_make()), number=None),
    "secret_of_a_user_or_a_queue": lambda: _update(Secret.objects.filter(pk=_secret().pk), user=None),
    "secret_of_a_user_or_a_queue both": lambda: _update(Secret.objects.filter(pk=_secret().pk), queue=queue_make()),
    "secret_once_a_user": lambda: _copy(_secret()),
    "secret_once_a_queue": lambda: _copy(_secret(user=None, queue=queue_make())),
    "idempotency_key_once": _key_twice,
    "shadow_is_single": lambda: _copy(Shadow(id=1), id=2),
    "delivery_once_a_webhook": _delivery_twice,
    "delivery_once_a_mail": _mail_twice,
    "delivery_has_one_receiver": lambda: _update(Delivery.objects.filter(pk=_delivery().pk), webhook=None),
    "delivery_next_try_exactly_while_waiting": lambda: _update(
        Delivery.objects.filter(pk=_delivery().pk), state="failed"
    ),
    "identity_once": _identity_twice,
    "template_once_in_queue": lambda: _copy(
        SpecTemplate.objects.create(queue=queue_make(), name="small", spec={}, owner=user_make(), created_at=AT)
    ),
    "view_once_by_user": lambda: _copy(
        SavedView.objects.create(user=user_make(), name="waiting", query="state=queued", created_at=AT)
    ),
    "job_day_once": lambda: _copy(
        JobDay.objects.create(day=AT, queue=queue_make(), user=user_make(), state=JobState.COMPLETED)
    ),
    "environment_once_a_server": lambda: _copy(_environment_on_a_server()),
    "server_environment_state_known": lambda: _update(
        ServerEnvironment.objects.filter(pk=_environment_on_a_server().pk), state="lost"
    ),
    "queue_isolation_known": lambda: _update(Queue.objects.filter(pk=queue_make().pk), isolation="perfect"),
    "code_sent_once": lambda: _copy(
        CodeSent.objects.create(
            folder=CodeFolder.objects.create(digest=digest_of(), num_files=2, num_bytes=1, created_at=AT, used_at=AT),
            user=user_make(),
            at=AT,
        )
    ),
    "code_git_once": lambda: _copy(
        CodeGit.objects.create(
            folder=CodeFolder.objects.create(digest=digest_of(), num_files=2, num_bytes=1, created_at=AT, used_at=AT),
            user=user_make(),
            source="0" * 64,
        )
    ),
    "quota_request_state_known": lambda: _update(_requests(), state="forgotten", answered_at=AT),
    "quota_request_replaced_is_withdrawn": lambda: _update(_requests(), replaced_by=_requests().get()),
    "quota_request_answered_unless_open": lambda: _update(_requests(), state="refused"),
    "quota_request_given_when_granted": lambda: _update(_requests(), state="granted", answered_at=AT),
    "quota_request_open_once_a_user": lambda: _copy(_requests().get()),
    "queue_budget_once_a_month": lambda: _copy(_budgets().get()),
    "queue_budget_not_negative": lambda: _update(_budgets(), amount=-1.0),
    "server_name_once_among_the_present": lambda: _copy(server_make(), id="s00000000000", number=999),
    "server_removed_is_lost": lambda: _update(Server.objects.filter(pk=server_make().pk), removed_at=AT),
    "written_loss_has_its_step": lambda: _update(
        WrittenLoss.objects.filter(pk=WrittenLoss.objects.create(job=job_make(), read_at=AT).pk), loss=1.0
    ),
    "usage_hour_once": lambda: _copy(UsageHour.objects.create(hour=AT, queue=queue_make(), user=user_make())),
}


@pytest.mark.parametrize("name", BREAKS)
def test_constraint_refuses(name: str) -> None:
    """Each named constraint stops the row it is there for."""
    with pytest.raises(IntegrityError), transaction.atomic():
        BREAKS[name]()


def test_token_hash_is_unique() -> None:
    """Two tokens never share a hash."""
    with pytest.raises(IntegrityError), transaction.atomic():
        _token_twice()


def test_every_named_constraint_has_a_test() -> None:
    """A new constraint comes with a row that it refuses."""
    named = {c.name for model in apps.get_app_config("scheduler").get_models() for c in model._meta.constraints}

    assert named == {name.split(" ")[0] for name in BREAKS}


def test_a_gpu_may_be_leased_again_after_release() -> None:
    """The unique index looks at open leases alone."""
    server = server_make(gpus=1)
    for _ in range(3):
        job = job_make(state=JobState.COMPLETED, server=server)

    assert LeaseGpu.objects.filter(gpu__server=server).count() == 3
    assert job.attempts.count() == 1


def test_cluster_row_exists_in_a_new_database() -> None:
    """Every database with our tables has its one cluster row."""
    assert Cluster.objects.get(pk=1).epoch == 1


@pytest.mark.parametrize("state", list(JobState))
def test_factory_builds_jobs_in_every_state(state: JobState) -> None:
    """The rows that other tests start from are such as the product makes."""
    job = job_make(state=state)

    assert job.state == state
    assert job.events.count() == job.event_count
