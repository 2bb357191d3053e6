"""Routes of the overview."""

from django.urls import path

from frontend.pages.overview import events, views

urlpatterns = [
    path("", views.overview, name="overview"),
    path("events", events.events, name="events"),
]
