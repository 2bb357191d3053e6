"""Routes of the job pages."""

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
