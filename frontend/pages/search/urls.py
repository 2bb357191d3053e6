"""Route of the search page."""

from django.urls import path

from frontend.pages.search import views

urlpatterns = [path("search", views.search_page, name="search")]
