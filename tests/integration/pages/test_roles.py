"""Who gets which page and whose form is taken: every role on every page, reading and sending."""

from typing import Any

import pytest
from django.db import transaction

from scheduler.models import QuotaRequest
from tests.integration.api.conftest import World
from tests.support.pages.routes import page_path, page_patterns
from tests.support.pages.world import page_arguments
from tests.support.roles.matrix import PAGES, ROLES

QUOTA = {"do": "quota", "quota_gpus": "5", "weight": "1", "reason": "more work", "version": "1"}
EXPERIMENT = {
    "job": '{"apiVersion": "v1", "name": "search", "queue": "vision", "command": ["train", "--lr", "{lr}"]}',
    "space": '{"lr": {"low": 0.001, "high": 1.0, "log": true}}',
    "configurations": "2", "total_steps": "100", "feedback_steps": "10", "target_loss": "0.1", "seed": "0",
}  # fmt: skip
JOB = {"name": "train", "queue": "vision", "command": "true", "gpus": "1"}
# What is sent, by the name of the way in the matrix; other forms are sent empty.
FORMS: dict[str, dict[str, Any]] = {
    "POST me": {"name": "laptop", "scopes": ["jobs:read"], "lifetime": "7"},
    "POST sign-in": {"username": "lea", "password": "wrong"},
    "POST job-new": JOB,
    "POST jobs-cancel": {"confirmed": "yes"},
    "POST job-reprioritise": {"priority": "80"},
    "POST jobs-reprioritise": {"priority": "80"},
    "POST jobs-suspend": {"confirmed": "yes"},
    "POST jobs-resume": {"confirmed": "yes"},
    "POST queue quota": QUOTA,
    "POST queue preview": {**QUOTA, "do": "preview"},
    "POST queue quota grant": {**QUOTA, "request": ""},
    "POST queue ask": {"do": "ask", "ask-quota_gpus": "6", "ask-reason": "deadline"},
    "POST queue change": {"do": "change", "request": "", "ask-quota_gpus": "7", "ask-reason": "deadline"},
    "POST queue refuse": {"do": "refuse", "request": "", "reason": "none left"},
    "POST queue withdraw": {"do": "withdraw", "request": ""},
    "POST queue limits": {
        "do": "limits",
        "limits-user_max_gpus": "2",
        "limits-reason": "deadline",
        "limits-version": "1",
    },
    "POST queue idle": {
        "do": "idle",
        "idle-after": "2h",
        "idle-action": "suspend",
        "idle-reason": "others wait",
        "idle-version": "1",
    },
    "POST queue files": {
        "do": "files",
        "files-keep_directories_days": "14",
        "files-reason": "disk is full",
        "files-version": "1",
    },
    "POST queue isolation": {
        "do": "isolation",
        "isolation-isolation": "user",
        "isolation-reason": "patients",
        "isolation-version": "1",
    },
    "POST queue member": {"do": "member", "username": "oz", "role": "viewer"},
    "POST queue remove": {"do": "remove", "username": "vic"},
    "POST server-drain": {"reason": "new fans"},
    "POST server-change": {"name": "server-01", "labels": "new fans", "reason": "repaired"},
    "POST server-remove": {"reason": "sold"},
    "POST server-mix": {"allowed": "1", "reason": "one team"},
    "POST server-undrain": {"reason": "repaired"},
    "POST server-size": {"reason": "grew"},
    "POST what-if-new": {"do": "add", "kind": "generator", "variants": "2"},
    "POST what-if-scenario": {"do": "cancel"},
    "POST what-if-apply": {"variant": "0", "version": "1", "reason": "faster"},
    "POST experiment-new": EXPERIMENT,
    "POST array cancel": {"do": "cancel"},
    "POST array retry": {"do": "retry"},
    "POST secrets": {"do": "set", "name": "comet", "value": "local-0123456789"},
    "POST secrets delete": {"do": "delete", "name": "wandb"},
    "POST queue-secrets": {"do": "set", "name": "comet", "value": "local-0123456789"},
    "POST queue-secrets delete": {"do": "delete", "name": "wandb"},
    "POST admin-costs": {"do": "prices", "gpu_price": "1.5", "currency": "EUR", "reason": "contract"},
    "POST admin-costs budget": {"do": "budget", "queue": "vision", "amount": "50", "reason": "grant"},
    "POST admin-pause": {"paused": "1", "version": "1", "reason": "power is cut"},
}


def answered(world: World, key: str, role: str) -> int:
    """Return the status of one request, which is undone."""
    method, name = key.split()[:2]
    path = page_path(name, page_arguments(world, role))
    form = dict(FORMS.get(key, {}))
    if name in ("jobs-cancel", "jobs-suspend", "jobs-resume", "jobs-restore", "jobs-reprioritise"):
        form["job"] = world.job.pk
    if "request" in form:
        form["request"] = str(world.quota_request.pk)
    with transaction.atomic():
        if form.get("do") == "ask":
            QuotaRequest.objects.all().delete()  # one open request each
        client = world.client(role)
        answer = client.post(path, form) if method == "POST" else client.get(path)
        transaction.set_rollback(True)
    return answer.status_code


@pytest.mark.parametrize("key", PAGES)
def test_each_role_is_answered_as_the_table_says(world: World, key: str) -> None:
    """302 for nobody, 404 for what may not be seen, 403 for too low a role."""
    assert tuple(answered(world, key, role) for role in ROLES) == PAGES[key]


def test_every_page_has_its_lines_in_the_table() -> None:
    """A new page says who may read it and who may send it, or this fails with its name."""
    told = {" ".join(key.split()[:2]) for key in PAGES}
    for name in page_patterns():
        for method in ("GET", "POST"):
            assert f"{method} {name}" in told, (
                f'add a row with Way("{method} {name}") to tests/support/roles/matrix.py: what each role may '
                "(or the page to ONLY_READ or ONLY_SENT when it does not take the method)"
            )

    assert {key.split()[1] for key in told} == set(page_patterns()), "the matrix names a page that is no more"
