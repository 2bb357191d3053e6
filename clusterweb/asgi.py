"""ASGI application: HTTP to Django, WebSocket to the consumers of the frontend."""

import os

from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter
from channels.security.websocket import AllowedHostsOriginValidator
from django import setup
from django.urls import reverse

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "clusterweb.settings")
setup(set_prefix=False)

from django.conf import settings  # noqa: E402
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware  # noqa: E402

from clusterweb.body_limit import limit_body  # noqa: E402
from clusterweb.request_threads import OneThreadHandler, with_kept_threads  # noqa: E402
from frontend.routing import websocket_urlpatterns  # noqa: E402  (needs the app registry)
from scheduler.api.http.uploads import body_bytes_allowed  # noqa: E402

# Loads all pages and routes now: half a second that else the first request waits for.
reverse("sign-in")

by_protocol = ProtocolTypeRouter(
    {
        "http": with_kept_threads(limit_body(OneThreadHandler(), allowed=body_bytes_allowed)),
        "websocket": AllowedHostsOriginValidator(AuthMiddlewareStack(URLRouter(websocket_urlpatterns))),
    }
)
# uvicorn's own is off (``--no-proxy-headers``): it believes every process of this machine, jobs included.
application = ProxyHeadersMiddleware(by_protocol, trusted_hosts=settings.PROXIES)
