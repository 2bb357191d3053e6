"""Routes of the webhooks."""

from django.urls import path

from frontend.pages.webhooks import views

urlpatterns = [
    path("webhooks", views.webhooks, name="webhooks"),
    path("webhooks/<int:webhook_id>", views.webhook, name="webhook"),
    path("webhooks/<int:webhook_id>/test", views.test, name="webhook-test"),
    path("webhooks/<int:webhook_id>/secret", views.secret, name="webhook-secret"),
    path("webhooks/<int:webhook_id>/revoke", views.revoke, name="webhook-revoke"),
]
