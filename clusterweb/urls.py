"""URL map: health for machines, REST under ``/api/v1/``, pages for people."""

from django.urls import include, path

handler500 = "frontend.components.errors.failed"

urlpatterns = [
    path("", include("scheduler.api.health.urls")),
    path("api/v1/", include("scheduler.api.urls")),
    path("", include("frontend.urls")),
]
