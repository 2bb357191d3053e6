"""Who gets which page and whose form is taken: every role on every page, reading and sending."""

from typing import Any

import pytest
from django.db import transaction

from tests.integration.api.conftest import ROLES, World
from tests.support.pages.routes import page_path, page_patterns
from tests.support.pages.world import page_arguments

# What each role is answered, in the order of ROLES: anonymous, outsider, viewer, member, lead, admin.
# Whoever is not signed in is sent to the sign-in page. 405 is a page that cannot be sent, or only be sent.
SIGNED_IN = (302, 200, 200, 200, 200, 200)
IN_QUEUE = (302, 404, 200, 200, 200, 200)  # what one may not see is not found
ADMINS = (302, 404, 404, 404, 404, 200)  # the page does not exist for others
ASKERS = (302, 404, 404, 404, 200, 200)  # who may ask what-if questions
OWN_QUESTION = (302, 404, 404, 404, 200, 200)  # the scenario is the lead's
ONLY_SENT = (302, 405, 405, 405, 405, 405)
ONLY_READ = (302, 405, 405, 405, 405, 405)
GOES_BACK = (302, 302, 302, 302, 302, 302)  # a message on the next page says what came of it
GOES_BACK_IN_QUEUE = (302, 404, 302, 302, 302, 302)

QUOTA = {"do": "quota", "quota_gpus": "5", "weight": "1", "reason": "more work", "version": "1"}
EXPERIMENT = {
    "job": '{"apiVersion": "v1", "name": "search", "queue": "vision", "command": ["train", "--lr", "{lr}"]}',
    "space": '{"lr": {"low": 0.001, "high": 1.0, "log": true}}',
    "configurations": "2", "total_steps": "100", "feedback_steps": "10", "target_loss": "0.1", "seed": "0",
}  # fmt: skip
JOB = {"name": "train", "queue": "vision", "command": "true", "gpus": "1"}
# ``<method> <name of the route>``, and where one page takes several forms a word for the form.
EXPECTED: dict[str, tuple[int, ...]] = {
    "GET overview": SIGNED_IN,
    "POST overview": ONLY_READ,
    "GET sign-in": (200, 302, 302, 302, 302, 302),
    "POST sign-in": (200, 302, 302, 302, 302, 302),
    "GET sign-out": ONLY_SENT,
    "POST sign-out": GOES_BACK,
    "GET me": SIGNED_IN,
    "POST me": SIGNED_IN,
    "GET theme": ONLY_SENT,
    "POST theme": GOES_BACK,
    "GET token-revoke": ONLY_SENT,
    "POST token-revoke": GOES_BACK,
    "GET jobs": SIGNED_IN,
    "POST jobs": ONLY_READ,
    "GET job-new": SIGNED_IN,
    "POST job-new": (302, 422, 422, 302, 302, 302),  # 422 is the form again, with what is wrong
    "GET jobs-cancel": ONLY_SENT,
    "POST jobs-cancel": (302, 404, 302, 302, 302, 302),
    "GET jobs-suspend": ONLY_SENT,
    "POST jobs-suspend": (302, 404, 302, 302, 302, 302),
    "GET jobs-resume": ONLY_SENT,
    "POST jobs-resume": (302, 404, 302, 302, 302, 302),
    "GET jobs-reprioritise": ONLY_SENT,
    "POST jobs-reprioritise": (302, 404, 302, 302, 302, 302),
    "GET view-keep": ONLY_SENT,
    "POST view-keep": (302, 302, 302, 302, 302, 302),
    "GET view-remove": ONLY_SENT,
    "POST view-remove": (302, 404, 404, 404, 404, 404),  # a view is its user's alone
    "GET template-remove": IN_QUEUE,
    "POST template-remove": GOES_BACK_IN_QUEUE,
    "GET job-unblock": GOES_BACK_IN_QUEUE,  # without a change there is nothing to ask
    "POST job-unblock": GOES_BACK_IN_QUEUE,
    "GET job-reprioritise": (302, 404, 302, 200, 200, 200),  # a viewer is told why, on the page of the job
    "POST job-reprioritise": GOES_BACK_IN_QUEUE,
    "GET job": IN_QUEUE,
    "POST job": ONLY_READ,
    "GET job-tab": IN_QUEUE,
    "POST job-tab": ONLY_READ,
    "GET job-cancel": (302, 404, 302, 200, 200, 200),
    "POST job-cancel": GOES_BACK_IN_QUEUE,
    "GET job-suspend": (302, 404, 302, 200, 200, 200),
    "POST job-suspend": GOES_BACK_IN_QUEUE,
    "GET jobs-restore": ONLY_SENT,
    "POST jobs-restore": (302, 404, 302, 302, 302, 302),
    "GET job-restore": GOES_BACK_IN_QUEUE,
    "POST job-restore": GOES_BACK_IN_QUEUE,
    "GET job-resume": GOES_BACK_IN_QUEUE,
    "POST job-resume": GOES_BACK_IN_QUEUE,
    "GET job-log-download": IN_QUEUE,
    "POST job-log-download": ONLY_READ,
    "GET job-profile-measure": ONLY_SENT,
    "POST job-profile-measure": GOES_BACK_IN_QUEUE,
    "GET queues": SIGNED_IN,
    "POST queues": (302, 403, 403, 403, 403, 422),  # the form again: nothing was entered
    "GET queue": IN_QUEUE,
    "POST queue quota": (302, 404, 403, 403, 403, 302),
    "POST queue preview": (302, 404, 403, 403, 200, 200),
    "POST queue limits": (302, 404, 403, 403, 302, 302),
    "POST queue idle": (302, 404, 403, 403, 302, 302),
    "POST queue member": (302, 404, 403, 403, 302, 302),
    "POST queue remove": GOES_BACK_IN_QUEUE,
    "GET cluster": SIGNED_IN,
    "POST cluster": ONLY_READ,
    "GET server": SIGNED_IN,
    "POST server": ONLY_READ,
    "GET server-drain": (302, 403, 403, 403, 403, 200),
    "POST server-drain": (302, 403, 403, 403, 403, 302),
    "GET server-undrain": ONLY_SENT,
    "POST server-undrain": (302, 403, 403, 403, 403, 302),
    "GET rounds": SIGNED_IN,
    "POST rounds": ONLY_READ,
    "GET round": SIGNED_IN,
    "POST round": ONLY_READ,
    "GET what-if": ASKERS,
    "POST what-if": ONLY_READ,
    "GET what-if-new": ASKERS,
    "POST what-if-new": ASKERS,
    "GET what-if-scenario": OWN_QUESTION,
    "POST what-if-scenario": (302, 404, 404, 404, 302, 302),
    "GET what-if-apply": ONLY_SENT,
    "POST what-if-apply": (302, 404, 404, 404, 403, 302),
    "GET what-if-traces": ONLY_SENT,
    "POST what-if-traces": (302, 404, 404, 404, 302, 302),
    "GET experiments": SIGNED_IN,
    "POST experiments": ONLY_READ,
    "GET experiment-new": (302, 200, 404, 200, 200, 200),  # for those who may submit somewhere
    "POST experiment-new": (302, 422, 404, 302, 302, 302),
    "GET experiment": IN_QUEUE,
    "POST experiment": (302, 404, 403, 302, 302, 302),
    "GET password": SIGNED_IN,
    "POST password": SIGNED_IN,
    "GET mails": ONLY_SENT,
    "POST mails": GOES_BACK,
    "GET oidc": GOES_BACK,  # no provider is set
    "POST oidc": (405, 405, 405, 405, 405, 405),
    "GET oidc-back": GOES_BACK,
    "POST oidc-back": (405, 405, 405, 405, 405, 405),
    "GET webhooks": OWN_QUESTION,
    "POST webhooks": (302, 404, 404, 404, 422, 422),  # the form again: nothing was entered
    "GET webhook": OWN_QUESTION,
    "POST webhook": ONLY_READ,
    "GET webhook-test": ONLY_SENT,
    "POST webhook-test": (302, 404, 404, 404, 302, 302),
    "GET webhook-secret": ONLY_SENT,
    "POST webhook-secret": OWN_QUESTION,
    "GET webhook-revoke": ONLY_SENT,
    "POST webhook-revoke": (302, 404, 404, 404, 302, 302),
    "GET admin-shadow": ADMINS,
    "POST admin-shadow": (302, 404, 404, 404, 404, 422),  # nothing was chosen
    "GET admin-shadow-end": ONLY_SENT,
    "POST admin-shadow-end": (302, 404, 404, 404, 404, 302),
    "GET admin-users": ADMINS,
    "POST admin-users": (302, 404, 404, 404, 404, 422),
    "GET admin-user": ADMINS,
    "POST admin-user": ONLY_READ,
    "GET admin-user-edit": ONLY_SENT,
    "POST admin-user-edit": (302, 404, 404, 404, 404, 302),
    "GET admin-token-revoke": ONLY_SENT,
    "POST admin-token-revoke": (302, 404, 404, 404, 404, 302),
    "GET admin-audit": ADMINS,
    "POST admin-audit": ONLY_READ,
    "GET admin-audit-file": ADMINS,
    "POST admin-audit-file": ONLY_READ,
    "GET admin": ADMINS,
    "POST admin": (302, 404, 404, 404, 404, 409),  # sent without the version that was read
    "GET admin-pause": ONLY_SENT,
    "POST admin-pause": (302, 404, 404, 404, 404, 302),
}
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
    "POST queue member": {"do": "member", "username": "oz", "role": "viewer"},
    "POST queue remove": {"do": "remove", "username": "vic"},
    "POST server-drain": {"reason": "new fans"},
    "POST what-if-new": {"do": "add", "kind": "generator", "variants": "2"},
    "POST what-if-scenario": {"do": "cancel"},
    "POST what-if-apply": {"variant": "0", "version": "1"},
    "POST experiment-new": EXPERIMENT,
    "POST admin-pause": {"paused": "1", "version": "1"},
}


def answered(world: World, key: str, role: str) -> int:
    """Return the status of one request, which is undone."""
    method, name = key.split()[:2]
    path = page_path(name, page_arguments(world, role))
    form = dict(FORMS.get(key, {}))
    if name in ("jobs-cancel", "jobs-suspend", "jobs-resume", "jobs-restore", "jobs-reprioritise"):
        form["job"] = world.job.pk
    with transaction.atomic():
        client = world.client(role)
        answer = client.post(path, form) if method == "POST" else client.get(path)
        transaction.set_rollback(True)
    return answer.status_code


@pytest.mark.parametrize("key", EXPECTED)
def test_each_role_is_answered_as_the_table_says(world: World, key: str) -> None:
    """302 for nobody, 404 for what may not be seen, 403 for too low a role."""
    assert tuple(answered(world, key, role) for role in ROLES) == EXPECTED[key]


def test_every_page_has_its_lines_in_the_table() -> None:
    """A new page says who may read it and who may send it, or this fails with its name."""
    told = {" ".join(key.split()[:2]) for key in EXPECTED}
    for name in page_patterns():
        for method in ("GET", "POST"):
            assert f"{method} {name}" in told, (
                f'add a line "{method} {name}" to EXPECTED: what anonymous, outsider, viewer, member, lead and admin '
                "are answered (ONLY_READ or ONLY_SENT when the page does not take the method)"
            )

    assert {key.split()[1] for key in told} == set(page_patterns()), "EXPECTED names a page that is no more"
