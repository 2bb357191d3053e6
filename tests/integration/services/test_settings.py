"""Settings of the scheduler change as a whole, checked, versioned and recorded."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from pytest_django import DjangoCaptureOnCommitCallbacks

from frontend.components.event_words.settings import CALLED
from frontend.pages.admin.earlier import earlier_settings
from scheduler.core.model.errors import Conflict, SpecInvalid
from scheduler.models import Cluster, Event
from scheduler.notify import use_bell
from scheduler.services.cluster.settings import FIELDS, cluster_row, config_of, settings_change, settings_restore
from tests.support.live.ports import MemoryBell
from tests.support.rows.factories import AT, user_make

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin() -> User:
    """An admin."""
    return user_make("admin", admin=True)


def change(actor: User, version: int = 1, **changes: Any) -> Cluster:
    """Change settings."""
    return settings_change(actor=actor, changes=changes, expected_version=version, at=AT, reason="to try it")


def test_cluster_row_is_made_when_it_is_missing() -> None:
    """Whoever reads the settings first finds them."""
    Cluster.objects.all().delete()

    assert cluster_row() == cluster_row() == Cluster.objects.get()


def test_change_is_recorded_with_before_and_after(
    admin: User, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    """A policy is changed with an event, a new version, and an early round."""
    bell = MemoryBell()
    use_bell(bell)
    try:
        with django_capture_on_commit_callbacks(execute=True):
            cluster = change(admin, policy="srtf")
    finally:
        use_bell(None)
    event = Event.objects.get(kind="settings")
    told = {"before": {"policy": "las"}, "after": {"policy": "srtf"}, "reason": "to try it"}

    assert (cluster.policy, cluster.settings_version) == ("srtf", 2)
    assert (event.actor, event.data) == ("admin", told)
    assert bell.triggers == ["settings"]


def test_new_policy_begins_with_its_default_options(admin: User) -> None:
    """Options of one policy mean nothing to another."""
    change(admin, policy_options={"queue_limits_gpu_s": [100.0]})
    cluster = change(admin, 2, policy="fifo")

    assert (cluster.policy, cluster.policy_options) == ("fifo", {})


def test_options_are_kept_with_the_policy(admin: User) -> None:
    """A policy and its options may change together."""
    cluster = change(admin, policy="las", policy_options={"queue_limits_gpu_s": [60.0, 600.0]})

    assert cluster.policy_options == {"queue_limits_gpu_s": [60.0, 600.0]}


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"policy": "magic"}, "/policy"),
        ({"locality": "magic"}, "/locality"),
        ({"mechanism": "magic"}, "/mechanism"),
        ({"policy": 3}, "/policy"),
        ({"policy_options": [1]}, "/policy_options"),
        ({"paused": "yes"}, "/paused"),
        ({"colour": "red"}, "/colour"),
        ({"epoch": 7}, "/epoch"),
        ({"next_job_number": 7}, "/next_job_number"),
    ],
)
def test_bad_setting_is_refused(admin: User, changes: dict[str, Any], pointer: str) -> None:
    """Unknown fields, names and types are named; nothing is written."""
    with pytest.raises(SpecInvalid) as caught:
        change(admin, **changes)

    assert [error.pointer for error in caught.value.errors] == [pointer]
    assert Cluster.objects.get().settings_version == 1


@pytest.mark.parametrize("options", [{"queue_limits_gpu_s": "x"}, {"queue_limits_gpu_s": [-1]}, {"speed": 1}])
def test_bad_option_is_refused(admin: User, options: dict[str, Any]) -> None:
    """Options are checked by the policy that reads them."""
    with pytest.raises(SpecInvalid) as caught:
        change(admin, policy_options=options)

    assert all(error.pointer.startswith("/policy_options/") for error in caught.value.errors)


def test_second_of_two_admins_is_told_who_was_first(admin: User) -> None:
    """A change on top of an old version is refused."""
    change(admin, paused=True)
    with pytest.raises(Conflict, match="admin changed them 0 s ago"):
        change(admin, 1, policy="fifo")

    assert Cluster.objects.get().policy == "las"


def test_change_to_the_same_is_no_change(admin: User) -> None:
    """Saving a form without a change makes no event and no version."""
    cluster = change(admin, policy="las")

    assert cluster.settings_version == 1
    assert not Event.objects.filter(kind="settings").exists()


def test_smoke_runs_are_a_setting(admin: User) -> None:
    """A number of seconds, none by default."""
    assert cluster_row().smoke_run_s == 0.0
    assert change(admin, smoke_run_s=90).smoke_run_s == 90.0
    for wrong in (-1, 3_601, "long", True, float("nan"), None):
        with pytest.raises(SpecInvalid, match="smoke_run_s"):
            change(admin, 2, smoke_run_s=wrong)


def test_least_run_is_a_setting(admin: User) -> None:
    """It reaches the rounds, and is refused beside turns that are shorter."""
    assert change(admin, min_run_s=90).min_run_s == 90.0
    assert config_of(cluster_row()).min_run_s == 90.0
    for wrong in (-1, 86_401, "long", True, float("nan"), None):
        with pytest.raises(SpecInvalid, match="min_run_s must be a number of seconds from 0"):
            change(admin, 2, min_run_s=wrong)
    with pytest.raises(SpecInvalid, match="is shorter than min_run_s, 90 s"):
        change(admin, 2, introspection=["slicing"])


def test_earlier_settings_name_what_differs_as_the_page_does(admin: User) -> None:
    """Each field has a name; no reader knows the columns of the table."""
    change(admin, 1, policy="las", policy_options={"promote_after": 3.0})
    change(admin, 2, policy="fifo", policy_options={}, user_most_queued=7)

    newest = earlier_settings()[0]

    assert newest["differ"] == [
        "policy (las, now fifo)",
        "promote after of las (3, now not chosen)",
        "jobs that a user may have queued (5\u202f000, now 7)",
    ]
    assert CALLED.keys() == set(FIELDS)


def test_settings_can_be_rolled_back_to_any_earlier_version(admin: User) -> None:
    """To what was chosen before any change, whatever came since; whether scheduling is paused stays."""
    change(admin, 1, policy="srtf")
    change(admin, 2, policy="las", policy_options={"promote_after": 3.0})
    change(admin, 3, paused=True)
    change(admin, 4, policy="fifo", smoke_run_s=60.0)
    events = list(Event.objects.filter(kind="settings").order_by("pk"))

    def restore(event: Event, reason: str = "it was better") -> Cluster:
        version = cluster_row().settings_version
        return settings_restore(actor=admin, event=event, expected_version=version, at=AT, reason=reason)

    third = restore(events[2])
    assert (third.policy, third.policy_options, third.smoke_run_s, third.paused) == (
        "las",
        {"promote_after": 3.0},
        0,
        True,
    )
    first = restore(events[0])
    assert (first.policy, first.policy_options, first.paused) == ("las", {}, True)
    second = restore(events[1])
    assert (second.policy, second.policy_options) == ("srtf", {})
    assert Event.objects.filter(kind="settings").latest("pk").data["reason"] == "it was better"
    with pytest.raises(SpecInvalid, match="reason"):
        restore(events[0], reason="")
