"""Routes of the wall."""

from django.urls import path

from frontend.pages.wall import open as opening
from frontend.pages.wall import views

urlpatterns = [
    path("wall", views.wall, name="wall"),
    path("wall/open", opening.wall_open, name="wall-open"),
]
