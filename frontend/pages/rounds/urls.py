"""Routes of the decision log."""

from django.urls import path

from frontend.pages.rounds import views

urlpatterns = [
    path("rounds", views.rounds, name="rounds"),
    path("rounds/<int:number>", views.round_page, name="round"),
]
