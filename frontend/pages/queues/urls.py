"""Routes of the queue pages. A queue's name may hold slashes, so what is done to it is a field of the form."""

from django.urls import path

from frontend.pages.queues import views

urlpatterns = [
    path("queues", views.queues, name="queues"),
    path("queues/<path:name>", views.queue, name="queue"),
]
