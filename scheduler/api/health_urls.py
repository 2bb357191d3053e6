"""Routes for machines: health, readiness, metrics."""

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
