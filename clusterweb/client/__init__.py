"""Clusterweb from a program: ``Client().submit(...)``, ``.wait()``, ``.logs()``. The command is built on it."""

from clusterweb.client.account import Account
from clusterweb.client.client import Client
from clusterweb.client.errors import CommandError, ServerRefused

__all__ = ["Account", "Client", "CommandError", "ServerRefused"]
