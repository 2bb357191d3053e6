"""Routes of the admin page."""

from django.urls import path

from frontend.pages.admin import views

urlpatterns = [
    path("admin", views.admin, name="admin"),
    path("admin/pause", views.pause, name="admin-pause"),
]
