"""Routes of the pages."""

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
