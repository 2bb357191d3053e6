"""Routes of the page."""

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
