"""Wiring of the product: settings, URLs, Celery, ASGI, and the start of everything on one machine."""
