"""Routes for machines: health, readiness, version, metrics; and the answer for other versions of the API."""

from django.urls import path, re_path

from scheduler.api.health import views as health
from scheduler.api.health.metrics import Metrics
from scheduler.api.not_found import not_found

urlpatterns = [
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("version", health.version, name="version"),
    path("metrics", Metrics.as_view(), name="metrics"),
    re_path(r"^api/(?!v1/)(?P<path>[\s\S]*)$", not_found, name="api-no-such-version"),
]
