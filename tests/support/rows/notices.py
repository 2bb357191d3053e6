"""Rows for tests of webhooks and mails, and a receiver that is real."""

import ipaddress
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from django.contrib.auth.models import User

from scheduler.models import Delivery, Queue, Webhook
from tests.support.rows.factories import AT

# The networks that tests allow a webhook to go to.
HERE = [ipaddress.ip_network("127.0.0.0/8")]


def webhook_make(user: User, queue: Queue | None = None, **columns: Any) -> Webhook:
    """Return a webhook that is told of everything from the first event on."""
    from scheduler.selectors.accounts.notices import NOTICES

    defaults: dict[str, Any] = {
        "name": "chat",
        "url": "https://hooks.example/room",
        "notices": list(NOTICES),
        "nonce": "n" * 43,
        "created_at": AT,
        "first_event": 0,
    }
    return Webhook.objects.create(created_by=user, queue=queue, **{**defaults, **columns})


def delivery_make(webhook: Webhook, **columns: Any) -> Delivery:
    """Return a delivery that waits for its first try."""
    defaults: dict[str, Any] = {"notice": "test", "body": "{}", "next_at": AT, "created_at": AT}
    return Delivery.objects.create(webhook=webhook, **{**defaults, **columns})


class Receiver:
    """A real HTTP server that keeps what it is sent and answers as it is told."""

    def __init__(self) -> None:
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.statuses: list[int] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.requests.append((dict(self.headers), body))
                self.send_response(receiver.statuses.pop(0) if receiver.statuses else 204)
                self.send_header("Location", receiver.url + "/elsewhere")
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook?room=7"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        """Take nothing more."""
        self.server.shutdown()
        self.server.server_close()
