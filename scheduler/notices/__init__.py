"""Tells the outside what happened: webhooks and mails."""
