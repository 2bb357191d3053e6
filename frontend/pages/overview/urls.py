"""Route of the overview."""

from django.urls import path

from frontend.pages.overview import views

urlpatterns = [path("", views.overview, name="overview")]
