"""The server and the token that the command uses: from the environment, else as ``clusterweb login`` stored them."""

import json
import os
import urllib.parse
from dataclasses import dataclass
from pathlib import Path

from clusterweb.client.errors import CommandError


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """One server and one token.

    Attributes:
        url: Address of the web server without a slash at the end.
        token: API token.
    """

    url: str
    token: str


def account_path() -> Path:
    """Return the file that ``login`` writes."""
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "clusterweb" / "account.json"


def read_account() -> Account:
    """Return the account. Raises CommandError when there is none."""
    stored: dict[str, str] = {}
    path = account_path()
    if path.exists():
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            raise CommandError(f"{path} is not JSON. Run clusterweb login again.") from None
    url = os.environ.get("CLUSTERWEB_URL") or stored.get("url", "")
    token = os.environ.get("CLUSTERWEB_TOKEN") or stored.get("token", "")
    if not url or not token:
        raise CommandError("Not signed in. Run clusterweb login URL, or set CLUSTERWEB_URL and CLUSTERWEB_TOKEN.")
    return Account(url=checked_url(url), token=token)


def write_account(account: Account) -> Path:
    """Store the account so that only its owner can read it."""
    path = account_path()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    partial = path.with_suffix(".partial")
    partial.unlink(missing_ok=True)
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        json.dump({"url": account.url, "token": account.token}, file)
    partial.replace(path)
    return path


def checked_url(url: str) -> str:
    """Return the address without a slash at the end. Raises CommandError when it is none."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.netloc:
        raise CommandError(f"{url} is no address. It is like https://clusterweb.example.org.")
    return url.rstrip("/")
