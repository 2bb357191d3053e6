"""Routes of the secrets. Names of queues hold slashes, so these stand before the pages of queues."""

from django.urls import path

from frontend.pages.secrets import views

urlpatterns = [
    path("secrets", views.secrets, name="secrets"),
    path("queues/<path:name>/secrets", views.queue_secrets, name="queue-secrets"),
]
