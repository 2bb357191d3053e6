"""Routes of the experiments pages."""

from django.urls import path

from frontend.pages.experiments import views

urlpatterns = [
    path("experiments", views.experiments, name="experiments"),
    path("experiments/new", views.new, name="experiment-new"),
    path("experiments/<str:experiment>", views.experiment_page, name="experiment"),
]
