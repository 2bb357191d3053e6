"""Sends events to webhooks and by mail."""
