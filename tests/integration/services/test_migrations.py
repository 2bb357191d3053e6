"""Migrations that change what is stored."""

import importlib

import pytest
from django.apps import apps

from scheduler.models import Cluster, ShadowRound
from tests.support.rows.factories import AT

pytestmark = pytest.mark.django_db


def test_an_option_that_is_gone_leaves_the_settings() -> None:
    """A cluster that stored ``late_s`` goes on with its other options; the policies of today would refuse it."""
    cluster, _ = Cluster.objects.get_or_create(pk=1)
    cluster.policy, cluster.policy_options = "themis", {"late_s": 60.0, "lease_s": 1200.0}
    cluster.save()
    ShadowRound.objects.create(number=1, version=1, at=AT, snapshot=b"packed before")
    ShadowRound.objects.create(number=2, version=1, at=AT, planned_at=AT)

    importlib.import_module("scheduler.migrations.0016_no_late_s").forget_late_s(apps, None)

    cluster.refresh_from_db()
    assert cluster.policy_options == {"lease_s": 1200.0}
    assert list(ShadowRound.objects.values_list("number", flat=True)) == [2]
