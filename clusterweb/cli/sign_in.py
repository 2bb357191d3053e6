"""``login``: the token is asked for or read from standard input, never an argument that others could see."""

import getpass
import sys
from argparse import Namespace

from clusterweb.cli.jobs import say
from clusterweb.client.account import Account, checked_url, write_account
from clusterweb.client.client import Client
from clusterweb.client.errors import CommandError


def login(given: Namespace) -> int:
    """Check a token and store it."""
    url = checked_url(given.url)
    token = (getpass.getpass("API token: ") if sys.stdin.isatty() else sys.stdin.readline()).strip()
    if not token:
        raise CommandError("No token. Make one on the page Tokens and paste it here.")
    account = Account(url=url, token=token)
    me = Client(account).get("me")
    say(f"Signed in as {me['username']}. Stored in {write_account(account)}.")
    return 0
