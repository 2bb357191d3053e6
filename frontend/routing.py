"""WebSocket routes."""

from django.urls import path

from frontend.components.live.consumer import LiveConsumer

websocket_urlpatterns = [path("ws/live", LiveConsumer.as_asgi())]
