"""WebSocket routes."""

from django.urls import path

from frontend.components.consumers import LiveConsumer

websocket_urlpatterns = [path("ws/live", LiveConsumer.as_asgi())]
