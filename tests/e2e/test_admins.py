"""What admins set up, by the real workers: webhooks that are told, a shadow that plans beside the rounds."""

import hashlib
import hmac
import json
from typing import Any

from tests.support.e2e.stack import Client, Stack, wait_for
from tests.support.rows.notices import Receiver


def made(client: Client, path: str, body: object) -> Any:
    """Return what a POST made."""
    answer = client.call("POST", path, body)
    assert answer.status in (201, 202), answer.text
    return answer.json


def test_a_webhook_is_told_of_a_job_from_start_to_end(stack: Stack, receiver: Receiver) -> None:
    """Signed with the secret that was shown once, each event once, in seconds."""
    found = receiver.requests
    admin = stack.client("admin")
    hook = made(
        admin, "/api/v1/webhooks", {"name": "all", "url": receiver.url, "notices": ["job.started", "job.finished"]}
    )
    job_id = stack.client("member").submit(name="told", queue="vision", command=["true"], retry={"max": 0})
    stack.client("member").wait_state(job_id, "completed")
    wait_for("two messages", lambda: len(found) >= 2)
    notices = []
    for headers, body in found:
        signed = hmac.new(hook["secret"].encode(), headers["X-Timestamp"].encode() + b"." + body, hashlib.sha256)
        assert headers["X-Signature-256"] == f"sha256={signed.hexdigest()}"
        notices.append((json.loads(body)["notice"], json.loads(body)["job"]["id"]))
    log = admin.get(f"/api/v1/webhooks/{hook['id']}/deliveries")["results"]
    assert admin.call("DELETE", f"/api/v1/webhooks/{hook['id']}").status == 204

    assert notices == [("job.started", job_id), ("job.finished", job_id)]
    assert [row["state"] for row in log] == ["delivered", "delivered"]


def test_a_shadow_plans_the_rounds_that_happen(stack: Stack) -> None:
    """By the simulations worker, on the snapshots that the scheduler handed over."""
    admin = stack.client("admin")
    version = admin.get("/api/v1/shadow")["version"]
    answer = admin.call(
        "PATCH", "/api/v1/shadow", {"policy": "srtf", "reason": "test"}, headers={"If-Match": f'"{version}"'}
    )
    assert answer.status == 200, answer.text
    job_id = stack.client("member").submit(name="seen", queue="vision", command=["sleep", "3"], retry={"max": 0})
    rounds = wait_for(
        "planned rounds",
        lambda: [row for row in admin.get("/api/v1/shadow/rounds")["results"] if row["num_same"]],
    )
    stack.client("member").wait_state(job_id, "completed")
    assert admin.call("DELETE", "/api/v1/shadow?reason=seen+enough").status == 204

    assert rounds[0]["error"] == ""
    assert rounds[0]["num_only_live"] == rounds[0]["num_only_shadow"] == 0
