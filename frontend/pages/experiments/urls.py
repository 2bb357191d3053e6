"""Routes of the experiments pages, and of the page of an array."""

from django.urls import path

from frontend.pages.experiments import arrays, views

urlpatterns = [
    path("arrays/<str:array>", arrays.array_page, name="array"),
    path("experiments", views.experiments, name="experiments"),
    path("experiments/new", views.new, name="experiment-new"),
    path("experiments/<str:experiment>", views.experiment_page, name="experiment"),
]
